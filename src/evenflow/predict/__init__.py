"""The step time and the memory of a transformer training, from its configuration and an accelerator's name."""
