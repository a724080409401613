"""What frameworks on torch.distributed.pipelining share: orders of work as CSV, names of schedules and of modules."""
