"""Hybrid models of Megatron-LM: plans as patterns of layers, and scripts with a pattern as plans."""
