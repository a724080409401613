"""The verbs of the command that need PyTorch, one file or folder each."""
