"""Megatron-LM with evenflow's adapter: plans as flags, and lines of the training script."""
