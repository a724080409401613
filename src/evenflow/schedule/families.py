"""The schedule families by name."""

import difflib

from evenflow.errors import InputError
from evenflow.schedule.f_then_b import f_then_b
from evenflow.schedule.interleaved import interleaved
from evenflow.schedule.one_f_one_b import one_f_one_b
from evenflow.schedule.schedule import Schedule
from evenflow.schedule.zb_h1 import zb_h1

FAMILIES = {
    "1f1b": "one forward, one backward in turn; one chunk a rank",
    "interleaved": "1F1B with several chunks a rank",
    "interleaved-less-memory": "interleaved 1F1B with the shortest warm-up",
    "zb-h1": "1F1B with split backwards: weight gradients fill the cooldown; one chunk a rank",
    "f-then-b": "all forwards, then all backwards (GPipe)",
}
ALIASES = {"gpipe": "f-then-b"}


def default_family(*, num_chunks: int, less_memory: bool = False) -> str:
    """The family for a number of chunks: 1F1B for one, interleaved for more."""
    if num_chunks == 1:
        return "1f1b"
    return "interleaved-less-memory" if less_memory else "interleaved"


def family_name(name: str) -> str:
    """The canonical name of a family; raises InputError with the nearest valid one."""
    canonical = ALIASES.get(name.lower(), name.lower())
    if canonical not in FAMILIES:
        near = difflib.get_close_matches(canonical, [*FAMILIES, *ALIASES], n=1)
        raise InputError(
            value=name,
            rule=f"a schedule is one of {', '.join([*FAMILIES, *ALIASES])}",
            place="schedule",
            remedy=f"did you mean {near[0]}?" if near else "",
        )
    return canonical


def make_schedule(
    name: str, *, num_ranks: int, num_chunks: int, num_microbatches: int, sequence_splits: int = 1
) -> Schedule:
    """The order of family `name` for these sizes."""
    name = family_name(name)
    sizes = {"num_ranks": num_ranks, "num_microbatches": num_microbatches, "sequence_splits": sequence_splits}
    if name in ("1f1b", "zb-h1"):
        if num_chunks != 1:
            raise InputError(
                value=num_chunks, rule=f"{name} has one chunk a rank", place="chunks", remedy="use interleaved"
            )
        return one_f_one_b(**sizes) if name == "1f1b" else zb_h1(**sizes)
    if name == "f-then-b":
        return f_then_b(num_chunks=num_chunks, **sizes)
    return interleaved(num_chunks=num_chunks, less_memory=name == "interleaved-less-memory", **sizes)
