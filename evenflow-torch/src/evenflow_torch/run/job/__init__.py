"""A training run: its checks, its processes, and the work of each."""
