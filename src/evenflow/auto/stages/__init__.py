"""Chooses the stages of a pipeline and the submesh of each.

Read `stage_search` first: it asks a provider for the costs of stages (`candidates`), from operator shardings
(`sharded_stages`) or formulas (`analytic`), has `dynamic_program` choose among them, and lays the answer out on devices
(`two_level_plan`). `request` holds what is asked for, `mesh_sharding` names a sharding.
"""
