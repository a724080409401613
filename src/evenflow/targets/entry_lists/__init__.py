"""What configurations of DeepSpeed and Paddle, which cut a list of entries, say of a pipeline."""
