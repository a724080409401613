"""torch.distributed.pipelining alone: plans as orders of work in CSV."""
