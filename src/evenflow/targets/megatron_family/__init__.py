"""What Megatron-LM and the frameworks that are built on it share: the pipeline layout, and the flags of a run."""
