"""What a user decides of a plan before the search."""
