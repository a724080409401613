"""Hybrid models of Megatron-Bridge: plans as patterns of layers, and files with a pattern as plans."""
