"""Splits of tensor dimensions over mesh axes, and how views change them."""
