"""What `evenflow tune` prints."""
