"""MindFormers in PyNative mode: plans as its configuration, and its configuration as plans."""
