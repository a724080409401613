"""verl: plans as overrides of its configuration, and its scripts as plans."""
