"""What a cell and a rank can hold: the columns of the linear program."""
