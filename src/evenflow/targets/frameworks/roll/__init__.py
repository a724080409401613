"""ROLL on Megatron-LM: plans as the strategy of its workers, and its configurations as plans."""
