"""Orders of work: values, families, text form, validity."""

from evenflow.schedule.action import NUM_OPS, Action, Op
from evenflow.schedule.f_then_b import f_then_b
from evenflow.schedule.families import FAMILIES, default_family, family_name, make_schedule
from evenflow.schedule.interleaved import interleaved
from evenflow.schedule.of_plan import schedule_of
from evenflow.schedule.one_f_one_b import one_f_one_b
from evenflow.schedule.schedule import Schedule
from evenflow.schedule.text import format_schedule, parse_schedule
from evenflow.schedule.validate import check_complete
from evenflow.schedule.zb_h1 import zb_h1

__all__ = [
    "FAMILIES",
    "NUM_OPS",
    "Action",
    "Op",
    "Schedule",
    "check_complete",
    "default_family",
    "f_then_b",
    "family_name",
    "format_schedule",
    "interleaved",
    "make_schedule",
    "one_f_one_b",
    "parse_schedule",
    "schedule_of",
    "zb_h1",
]
