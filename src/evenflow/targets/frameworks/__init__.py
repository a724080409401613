"""One folder for each framework, with its `TARGET` in `target.py`; a new folder here is a new target."""
