"""The degrees of parallelism of Megatron-LM and its relatives: rules, flags, settings, and what arguments say."""
