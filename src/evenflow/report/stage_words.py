"""The layers of every stage in words."""

from collections.abc import Iterator
from itertools import groupby

from evenflow.language import _, _n
from evenflow.model import NONE, Network, Plan
from evenflow.model.recompute import ordered_kinds
from evenflow.schedule import Schedule


def stage_words(plan: Plan, schedule: Schedule, network: Network | None) -> Iterator[str]:
    """Give for every stage words like ``layers 0 to 9: 10 decoder; recompute full on 3 layers; embedding``.

    Without a network nothing is known of the layers but their numbers.
    """
    chunk_of = schedule.stage_chunks.tolist()
    first = 0
    for stage, rank in enumerate(schedule.stage_ranks):
        chunk = chunk_of[stage]
        end = first + plan.layers[chunk][rank]
        kinds = ((kind, plan.count(kind, chunk, rank)) for kind in ordered_kinds(set(plan.used_kinds)) if kind != NONE)
        recomputing = [
            _n("recompute {kind} on {count} layer", "recompute {kind} on {count} layers", count=count, kind=kind)
            for kind, count in kinds
            if count
        ]
        ends = []
        if network is not None:
            ends = [network.head.name] * (stage == 0) + [network.tail.name] * (stage == schedule.num_stages - 1)
        yield "; ".join(filter(None, (_layers(first, end, network), *recomputing, *ends)))
        first = end


def _layers(first: int, end: int, network: Network | None) -> str:
    if first == end:
        return _("no layers")
    span = (
        _("layer {first}", first=first)
        if end - first == 1
        else _("layers {first} to {last}", first=first, last=end - 1)
    )
    if network is None:
        return span
    names = ((name, len(list(equal))) for name, equal in groupby(layer.name for layer in network.layers[first:end]))
    layers = ", ".join(f"{count} {name}" for name, count in names)
    return _("{span}: {layers}", span=span, layers=layers)
