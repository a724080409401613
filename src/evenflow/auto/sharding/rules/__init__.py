"""Sharding rules of operators of our own."""
