"""Lower bounds on the step of a plan; docs/bounds.md says which holds for what, and how they compare."""

from evenflow.solve.bounds.any_order_bound import AnyPlan, any_order_bound_ns
from evenflow.solve.bounds.capacity_bound import capacity_bound_ns, capacity_table
from evenflow.solve.bounds.even_shares import even_memory_bytes, even_work_ns, lowered
from evenflow.solve.bounds.every_cut_bound import every_cut_bound_ns, load_cut_search
from evenflow.solve.bounds.given_cells_bound import GivenCellsBound, given_cells_bound
from evenflow.solve.bounds.layer_table import LayerTable
from evenflow.solve.bounds.link_bound import link_bound_ns
from evenflow.solve.bounds.order_facts import order_facts
from evenflow.solve.bounds.path_bound import After, path_bound_ns
from evenflow.solve.bounds.ramp_bound import ramp_bound_ns, ramps_by_place_ns, rank_ramps_ns

__all__ = [
    "After",
    "AnyPlan",
    "GivenCellsBound",
    "LayerTable",
    "any_order_bound_ns",
    "capacity_bound_ns",
    "capacity_table",
    "even_memory_bytes",
    "even_work_ns",
    "every_cut_bound_ns",
    "given_cells_bound",
    "link_bound_ns",
    "load_cut_search",
    "lowered",
    "order_facts",
    "path_bound_ns",
    "ramp_bound_ns",
    "ramps_by_place_ns",
    "rank_ramps_ns",
]
