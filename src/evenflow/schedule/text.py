"""The text form of a schedule, one comma-separated line per rank, and its inverse.

torch.distributed.pipelining reads it as a compute-only CSV; empty cells are idle slots and are skipped.
Older files of that library call the input gradient B and the full backward BW.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.schedule.action import Action, Op
from evenflow.schedule.schedule import Schedule

_PAIR = "OVERLAP_F_B"
"""What torch.distributed.pipelining calls a forward beside a backward: ``(2F1;2B0)OVERLAP_F_B``."""
_PAIR_FORM = re.compile(rf"\s*\(([^();]*);([^();]*)\)\s*{_PAIR}\s*")
_OLD_NAMES = {"F": Op.F, "B": Op.I, "W": Op.W, "BW": Op.B}


def format_schedule(schedule: Schedule) -> str:
    """Return the text of `schedule`, one line per rank, like ``0F0,0F1,0B0,0B1``.

    A forward beside a backward is one entry: ``(0F1;0B0)OVERLAP_F_B``.
    """
    names = tuple(op.name for op in Op)
    columns = schedule.stages.tolist(), schedule.ops.tolist(), schedule.units.tolist()
    tokens = [f"{stage}{names[op]}{unit}" for stage, op, unit in zip(*columns, strict=True)]
    for index in schedule.paired.tolist():
        tokens[index] = f"({tokens[index]};{tokens[index + 1]}){_PAIR}"
        tokens[index + 1] = ""
    rows = (tokens[start:end] for start, end in pairwise(schedule.rank_starts))
    return "".join(",".join(filter(None, row)) + "\n" for row in rows)


def parse_schedule(text: str, *, name: str, sequence_splits: int = 1, place: str = "schedule") -> Schedule:
    """Return the schedule of a text that `format_schedule` wrote; sizes and placement follow from the actions.

    The order is not checked. A text with BW, or with W but without I, is taken for one of an older file.
    """
    used = set(re.findall("[A-Z]+", text.replace(_PAIR, "")))
    is_old = "BW" in used or ("W" in used and "I" not in used)
    names = _OLD_NAMES if is_old else Op.__members__
    orders = []
    for number, line in enumerate(text.splitlines(), start=1):
        tokens = [token for token in line.split(",") if token.strip()]
        line_place = _("{place}, line {number}", place=place, number=number)
        orders.append([action for token in tokens for action in _actions_of(token, names=names, place=line_place)])
    actions = [action for order in orders for action in order]
    if not actions:
        raise InputError(value=text[:40], rule=_("must have at least one action"), place=place)
    num_units = max(action.microbatch for action in actions) + 1
    num_stages = max(action.stage for action in actions) + 1
    first_ranks = {action.stage: rank for rank, order in reversed(list(enumerate(orders))) for action in order}
    return Schedule.from_actions(
        name=name,
        num_stages=num_stages,
        num_microbatches=-(-num_units // sequence_splits),
        sequence_splits=sequence_splits,
        stage_ranks=[first_ranks.get(stage, stage % len(orders)) for stage in range(num_stages)],
        orders=orders,
    )


def _actions_of(token: str, *, names: Mapping[str, Op], place: str) -> Iterator[Action]:
    """Yield the action of an entry, or both of a pair, the forward first."""
    pair = _PAIR_FORM.fullmatch(token)
    if pair is None:
        yield Action.parse(token, names=names, place=place)
        return
    actions = [Action.parse(part, names=names, place=place) for part in pair.groups()]
    actions.sort(key=lambda action: action.op)
    if [action.op for action in actions] != [Op.F, Op.B]:
        raise InputError(
            value=token.strip(),
            rule=_("must be a forward and a whole backward, like (0F1;0B0)OVERLAP_F_B"),
            place=place,
        )
    yield replace(actions[0], is_paired=True)
    yield actions[1]
