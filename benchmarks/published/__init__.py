"""Training runs that others measured and published, as data, and how far predictions of them are off."""
