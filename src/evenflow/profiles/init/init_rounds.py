"""The sections of an init file that describe its dry runs: offsets and recompute lists, as plans."""

from collections.abc import Sequence
from typing import TypeGuard

from evenflow.errors import InputError
from evenflow.fields import Fields, is_integer_list
from evenflow.language import _
from evenflow.model import Cells, Plan
from evenflow.profiles.cell_lists import RECOMPUTE_LISTS, check_counts, exclusive_counts, layers_by_cell
from evenflow.profiles.yaml_file import section
from evenflow.ranges import RANKS

RECOMPUTE = "recompute_config"
_FEWEST_STAGES = 3


def read_rounds(top: Fields, pipeline: Fields, *, num_layers: int, stages: object) -> tuple[Plan, ...]:
    """Return one dry run for each round, with as many microbatches as stages, so that every stage reaches its peak.

    `stages` is the raw field `stage_id`, which tells the number of rounds where all have the same offsets.
    """
    num_stages = pipeline.integer("pipeline_num", RANKS)
    if num_stages < _FEWEST_STAGES:
        raise pipeline.error(
            "pipeline_num",
            _(
                "must be {fewest_stages} or more, because only middle stages tell parameters from activations",
                fewest_stages=_FEWEST_STAGES,
            ),
            remedy=_("dry-run the model with more stages; the memory of a layer stays the same"),
        )
    num_rounds = _num_rounds(pipeline, stages)
    layers = []
    for name, entry in _by_round(pipeline, "offset", num_rounds):
        offset = [0] * num_stages if entry is False else _row(entry, num_stages, place=name, other="0")
        layers.append(layers_by_cell([offset], num_layers=num_layers, place=name, cell=_stage))
    recompute = section(top, RECOMPUTE) if RECOMPUTE in top else Fields(values={}, file=top.file, path=RECOMPUTE)
    recompute.check_known(RECOMPUTE_LISTS)
    counts = [_counts(recompute, key, layers) for key in RECOMPUTE_LISTS]
    return tuple(
        Plan(
            schedule="1f1b",
            num_microbatches=num_stages,
            layers=layers[index],
            recompute=exclusive_counts(*(rows[index] for rows in counts)),
        )
        for index in range(num_rounds)
    )


def _num_rounds(pipeline: Fields, stages: object) -> int:
    """Return the number of rounds in the offsets, or in the stages where the offsets are the same for all."""
    offset = pipeline.required("offset")
    if offset is None:
        raise InputError(
            value=offset, rule=_("must be 0, a list of integers or a list of lists"), place=pipeline.place("offset")
        )
    for rows in (offset, stages):
        if _is_nested(rows):
            return len(rows)
    return 1


def _counts(fields: Fields, key: str, layers: Sequence[Cells]) -> list[Cells]:
    """Return the cumulative recompute list of each round: as given, or all or no layers for true or false."""
    tables = []
    for (name, entry), own in zip(_by_round(fields, key, len(layers)), layers, strict=True):
        if isinstance(entry, bool):
            tables.append(own if entry else ((0,) * len(own[0]),))
            continue
        row = _row(entry, len(own[0]), place=name, other="true, false")
        check_counts([row], own, place=name, cell=_stage)
        tables.append((tuple(row),))
    return tables


def _by_round(fields: Fields, key: str, num_rounds: int) -> list[tuple[str, object]]:
    """Return the value of `key` for each round, with its place for messages.

    An absent value and 0 are false; one word goes for all rounds.
    """
    value, name = fields.values.get(key), fields.place(key)
    if value is None or isinstance(value, bool) or value == 0:
        return [(name, value or False)] * num_rounds
    entries = value if _is_nested(value) or num_rounds > 1 else [value]
    if not isinstance(entries, list) or len(entries) != num_rounds:
        raise fields.error(key, _("must have an entry for each round, here {num_rounds}", num_rounds=num_rounds))
    several = num_rounds > 1
    return [
        (f"{name}, round {index + 1}" if several else name, entry if entry != 0 else False)
        for index, entry in enumerate(entries)
    ]


def _is_nested(value: object) -> TypeGuard[list[object]]:
    """Whether `value` has an entry for each round."""
    return isinstance(value, list) and any(isinstance(entry, list | bool) for entry in value)


def _row(value: object, num_stages: int, *, place: str, other: str) -> list[int]:
    """Return a list with an integer for each stage."""
    if not is_integer_list(value):
        rule = _("must be {other}, a list of integers, or a list of such for each round", other=other)
        raise InputError(value=value, rule=rule, place=place)
    if len(value) != num_stages:
        rule = _(
            "must have a number for each of the {num_stages} stages; here are {count}",
            num_stages=num_stages,
            count=len(value),
        )
        raise InputError(value=value, rule=rule, place=place)
    return value


def _stage(_chunk: int, rank: int) -> str:
    """Return what a cell is called in messages; a dry run has one chunk."""
    return _("stage {rank}", rank=rank)
