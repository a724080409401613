"""What a training may be, and what changes where it does not fit."""
