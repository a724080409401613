"""What Primus adds to the settings of Megatron-LM."""
