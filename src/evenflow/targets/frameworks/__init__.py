"""One file for each framework, with its `TARGET`; a new file here is a new target."""
