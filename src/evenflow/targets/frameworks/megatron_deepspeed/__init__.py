"""Megatron-DeepSpeed: plans as flags of its training scripts, and its scripts as plans."""
