"""DeepSpeed: plans as a Python module and configuration, and its configuration as plans."""
