"""Megatron-Bridge: plans as fields of its configuration, and its configuration as plans."""
