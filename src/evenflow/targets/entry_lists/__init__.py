"""What frameworks share that cut a list of entries, DeepSpeed and Paddle: how their configurations are read."""
