"""What a run is asked for and what it answers: values that travel between processes as JSON. Imports no torch."""
