"""PyTorch models: parts in a row, decoders from a configuration, operators and what they cost."""
