"""A training run: what is asked for, its processes, and what comes back."""
