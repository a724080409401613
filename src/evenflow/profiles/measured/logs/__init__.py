"""Logs of training as measured runs: Megatron-LM and its relatives, torchtitan, MindFormers, NeMo, DeepSpeed."""
