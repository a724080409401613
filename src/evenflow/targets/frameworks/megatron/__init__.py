"""Megatron-LM: plans as flags of its training scripts."""
