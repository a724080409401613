"""Shards the operators of a graph over a mesh, as an integer program and its solution.

Read `shard` first, the shortest way from a module to a `sharding_plan`. `builder` states the `program`: a choice of
`operator_strategies` for each operator, with the time of each (`operator_time`) and of the moves between them
(`redistribution`). `pairwise` solves it, `solution_plan` reads the answer. `layer_costs` does so for every kind of
layer at several prices of memory (`memory_levels`), and gives `mesh_costs` for the stages of a pipeline.
"""
