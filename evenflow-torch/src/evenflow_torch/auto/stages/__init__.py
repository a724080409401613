"""Chooses the stages of a pipeline and the submesh of each.

Read `stage_search` first: it asks a `stage_provider` for the costs of `candidates`, from operator shardings
(`sharded_stages`) or formulas (`analytic`), has `threshold_search` choose among them with a `dynamic_program`, and lays
the answer out on devices (`two_level_plan`). `request` holds what is asked for.
"""
