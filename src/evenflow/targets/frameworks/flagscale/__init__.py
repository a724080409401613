"""FlagScale: plans as its training YAML, and its training YAML as plans."""
