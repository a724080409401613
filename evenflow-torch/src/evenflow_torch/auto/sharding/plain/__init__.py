"""Plain plans, as people write them by hand: restrictions of the sharding program."""
