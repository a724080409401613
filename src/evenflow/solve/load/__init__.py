"""How little a pipeline can take: bounds in microseconds from what each rank can hold and do in a time."""
