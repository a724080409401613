"""Schedules: the orders of work as values, the families that make them, their text form and their validity."""

from evenflow.schedule.action import FORWARD, FULL_BACKWARD, INPUT_GRADIENT, NUM_OPS, WEIGHT_GRADIENT, Action, Op
from evenflow.schedule.bubble_formulas import Bubble, BubblePlace, bubbles_by_formula, collect_bubbles
from evenflow.schedule.f_then_b import f_then_b
from evenflow.schedule.families import (
    ALIAS_NOTES,
    ALIASES,
    FAMILIES,
    chunk_count,
    default_family,
    family_name,
    family_of,
    family_placement,
    make_schedule,
)
from evenflow.schedule.grid import fault_grid
from evenflow.schedule.groups import (
    check_group_size,
    different_group_sizes,
    fewest_in_group,
    first_group_size,
    group_allowed,
    group_sizes,
    usual_group_size,
)
from evenflow.schedule.idle_formulas import IdleFormula, idle_by_formula
from evenflow.schedule.interleaved import interleaved
from evenflow.schedule.of_plan import check_sizes_of, order_lines, schedule_of
from evenflow.schedule.one_f_one_b import one_f_one_b
from evenflow.schedule.schedule import Schedule
from evenflow.schedule.text import format_schedule, parse_schedule
from evenflow.schedule.validate import check_complete
from evenflow.schedule.zb_h1 import zb_h1

__all__ = [
    "ALIASES",
    "ALIAS_NOTES",
    "FAMILIES",
    "FORWARD",
    "FULL_BACKWARD",
    "INPUT_GRADIENT",
    "NUM_OPS",
    "WEIGHT_GRADIENT",
    "Action",
    "Bubble",
    "BubblePlace",
    "IdleFormula",
    "Op",
    "Schedule",
    "bubbles_by_formula",
    "check_complete",
    "check_group_size",
    "check_sizes_of",
    "chunk_count",
    "collect_bubbles",
    "default_family",
    "different_group_sizes",
    "f_then_b",
    "family_name",
    "family_of",
    "family_placement",
    "fault_grid",
    "fewest_in_group",
    "first_group_size",
    "format_schedule",
    "group_allowed",
    "group_sizes",
    "idle_by_formula",
    "interleaved",
    "make_schedule",
    "one_f_one_b",
    "order_lines",
    "parse_schedule",
    "schedule_of",
    "usual_group_size",
    "zb_h1",
]
