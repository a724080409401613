"""LLaMA-Factory on Megatron-LM: plans as arguments of its YAML, and its YAML as plans."""
