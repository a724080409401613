"""What MindSpeed adds to the flags of Megatron-LM."""
