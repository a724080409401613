"""MindFormers on a static graph: plans as its configuration, and its configuration as plans."""
