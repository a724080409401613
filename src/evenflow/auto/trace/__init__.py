"""Modules traced on fake tensors into operator graphs."""
