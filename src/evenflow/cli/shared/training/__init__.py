"""Options that say which training is meant: its model, its devices, its step, and what the framework does."""
