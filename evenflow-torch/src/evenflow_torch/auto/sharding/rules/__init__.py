"""Sharding rules that DTensor's registries lack, for one mesh axis: of torch's operators and of our own."""
