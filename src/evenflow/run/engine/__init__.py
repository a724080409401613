"""Plans on torch.distributed.pipelining: the runtime, and the stages it runs."""
