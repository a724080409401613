"""Peak memory of every stage from logs: MindSpore's dry runs, and Megatron-LM's training."""
