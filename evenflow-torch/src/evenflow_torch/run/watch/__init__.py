"""Which rank failed, died or was stopped, and where the others stood."""
