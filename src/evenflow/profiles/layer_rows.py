"""Rows of body layers in a layer file: which may begin a stage, which stages may hold them, blocks that repeat.

    {"type": "BODY", "name": "Block", "nb_layer": 48, "cut_inside": false,
     "layers": [{"name": "Attention", "nb_layer": 1, …}, {"name": "MLP", "nb_layer": 1, …}]}

The writer makes a block of what repeats, so that a model of many half blocks is no longer than its parts.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from evenflow.fields import Fields, is_integer
from evenflow.language import _
from evenflow.model import Layer, LayerRun, StageRule
from evenflow.profiles.layer_entry import (
    CONTINUES_KEY,
    ENCODER_KEY,
    ENTRY_KEYS,
    MTP_KEY,
    RULE_KEYS,
    body_layer,
    layer_count,
)

_BLOCK_KEYS = {"name", "type", "nb_layer", "layers", "cut_inside", *RULE_KEYS}
_LONGEST_BLOCK = 16
"""Most runs of a block that the writer looks for."""


def entries_of_body(body: Fields) -> list[Fields]:
    """Return the entries of layers that a BODY entry has: itself, or those of its block, their keys checked."""
    if "layers" not in body:
        body.check_known(ENTRY_KEYS)
        return [body]
    body.check_known(_BLOCK_KEYS)
    inner = body.objects("layers")
    if not inner:
        raise body.error("layers", _("must have at least one entry"))
    for entry in inner:
        entry.check_known(ENTRY_KEYS)
        entry.text("name")
        if "type" in entry and entry.text("type") != "BODY":
            raise entry.error("type", _("must be BODY in a block"))
    return inner


def runs_of_body(body: Fields, has_memory: bool) -> list[LayerRun]:
    """Return the layers of a BODY entry in order, as runs of equal ones."""
    count = layer_count(body)
    if "layers" not in body:
        flags = _cuts(body, count)
        layer = replace(body_layer(body, has_memory), stage_rules=_rules(body))
        if all(flags):
            return [LayerRun(layer=layer, count=count)]
        return _runs(replace(layer, cut_before=flag) for flag in flags)
    cut_inside = body.flag("cut_inside") if "cut_inside" in body else True
    shared = _rules(body)
    inner = [run for entry in entries_of_body(body) for run in runs_of_body(entry, has_memory)]
    first, *others = [
        replace(run.layer, stage_rules=run.layer.stage_rules | shared) for run in inner for _copy in range(run.count)
    ]
    if not cut_inside:
        others = [replace(layer, cut_before=False) for layer in others]
    return _runs(
        layer
        for flag in _cuts(body, count)
        for layer in (replace(first, cut_before=first.cut_before and flag), *others)
    )


def _cuts(entry: Fields, count: int) -> list[bool]:
    """Return before which of the `count` layers or blocks of an entry a stage may begin."""
    value = entry.values.get("cut_before", True)
    if isinstance(value, bool):
        return [value] * count
    if is_integer(value) and 1 <= value <= count:
        return [place % value == 0 for place in range(count)]
    if isinstance(value, list) and all(is_integer(place) and 0 <= place < count for place in value):
        return [place in value for place in range(count)]
    rule = _(
        "must be true, false, a list of numbers from 0 to {last}, or a number k for every k-th, at most {count}",
        last=count - 1,
        count=count,
    )
    raise entry.error("cut_before", rule)


def _rules(entry: Fields) -> frozenset[StageRule]:
    if "stage_rules" not in entry:
        return frozenset()
    names = entry.texts("stage_rules")
    unknown = [name for name in names if name not in list(StageRule)]
    if unknown:
        raise entry.error("stage_rules", _("must have only the rules {names}", names=", ".join(StageRule)))
    return frozenset(map(StageRule, names))


def _runs(layers: Iterator[Layer]) -> list[LayerRun]:
    return [LayerRun(layer=layer, count=len(list(equal))) for layer, equal in groupby(layers)]


def body_fields(
    runs: Sequence[LayerRun], entry_of: Callable[[LayerRun], dict[str, object]]
) -> Iterator[dict[str, object]]:
    """Yield the entries that read back as `runs`; `entry_of` returns that of one run without its rules."""
    place = 0
    while place < len(runs):
        period, times = _repetition(runs, place)
        if times == 1:
            yield entry_of(runs[place]) | _rule_fields(runs[place].layer)
            place += 1
            continue
        block = runs[place : place + period]
        entries = [entry_of(run) | _rule_fields(run.layer) for run in block]
        yield {
            "name": " + ".join(dict.fromkeys(run.layer.name for run in block)),
            "type": "BODY",
            "nb_layer": times,
            "layers": entries,
        }
        place += period * times


def _rule_fields(layer: Layer) -> dict[str, object]:
    fields: dict[str, object] = {} if layer.cut_before else {"cut_before": False}
    fields |= {MTP_KEY: True} if layer.is_mtp else {}
    fields |= {ENCODER_KEY: True} if layer.is_encoder else {}
    fields |= {CONTINUES_KEY: True} if layer.continues_block else {}
    return fields | ({"stage_rules": sorted(layer.stage_rules)} if layer.stage_rules else {})


def _repetition(runs: Sequence[LayerRun], place: int) -> tuple[int, int]:
    """Return how many runs from `place` on repeat, and how often; one run once where none do."""
    best = (1, 1)
    for period in range(2, _LONGEST_BLOCK + 1):
        block = runs[place : place + period]
        times = 1
        while runs[place + times * period : place + (times + 1) * period] == block:
            times += 1
        # Runs of equal layers side by side would be read as one.
        apart = all(first.layer != second.layer for first, second in zip(block, (*block[1:], block[0]), strict=True))
        if times > 1 and apart and period * times > best[0] * best[1]:
            best = (period, times)
    return best
