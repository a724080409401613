"""The columns of the linear program: all contents that a cell or a rank can hold."""
