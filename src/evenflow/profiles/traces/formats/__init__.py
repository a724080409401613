"""Readers of single files, one for each format: Chrome traces of Ascend and PyTorch, reports of Nsight Systems."""
