"""What FlagScale adds to the settings of Megatron-LM."""
