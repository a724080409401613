"""The runtime of torch.distributed.pipelining, and the stages of a plan that it runs."""
