"""Segments: groups of layers of which only the input of the first is kept, and all else computed again together.

[sqrt(n) checkpointing, arXiv:1604.06174, §4.2; GPipe keeps the boundary of a whole partition, arXiv:1811.06965, §2.3;
Megatron-LM's uniform method]
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model.blocks import blocks_of
from evenflow.model.network import Layer, LayerRun, Mode, Network
from evenflow.model.plan import Cells, Plan, cells
from evenflow.model.recompute import FULL

_PREFIX = "segment"
WHOLE = 0
"""The length of a segment that is all of a cell that is under its kind."""


def segment_kind(length: int) -> str:
    """Return the recompute kind of segments of so many layers.

    >>> segment_kind(4), segment_kind(WHOLE)
    ('segment4', 'segment')
    """
    return f"{_PREFIX}{length}" if length else _PREFIX


def segment_length(kind: str) -> int | None:
    """Return the length of the segments of a recompute kind; None where it is not one of segments.

    >>> segment_length("segment4"), segment_length("segment"), segment_length("full")
    (4, 0, None)
    """
    if not kind.startswith(_PREFIX) or not (kind == _PREFIX or kind.removeprefix(_PREFIX).isdecimal()):
        return None
    return int(kind.removeprefix(_PREFIX) or WHOLE)


def has_whole_segments(layers: Cells, lengths: Iterable[int]) -> bool:
    """Return whether every cell holds a multiple of each of `lengths`, so that no segment is shorter."""
    return all(count % length == 0 for length in lengths for row in layers for count in row)


def one_by_one(plan: Plan) -> Plan:
    """Return the plan with layers that are computed again in segments under `full`, each by itself."""
    kinds = [kind for kind in plan.used_kinds if segment_length(kind) is not None]
    if not kinds:
        return plan
    full = cells(
        [
            [sum(plan.count(kind, chunk, rank) for kind in (FULL, *kinds)) for rank in range(plan.num_ranks)]
            for chunk in range(plan.num_chunks)
        ]
    )
    kept = {kind: table for kind, table in plan.recompute.items() if kind not in (FULL, *kinds)}
    return replace(plan, recompute={**kept, FULL: full})


def offering(network: Network, kinds: Sequence[str]) -> Network:
    """Return the network with the kinds of segments that are among `kinds`, beside those that it has.

    Raises:
        InputError: as `with_segments`.
    """
    lengths = [length for kind in kinds if (length := segment_length(kind)) is not None]
    known = list(network.segments.values())
    more = [length for length in lengths if length not in known]
    return with_segments(network, [*known, *more]) if more else network


def with_segments(network: Network, lengths: Sequence[int]) -> Network:
    """Return the network whose layers may also be computed again in segments of these lengths (`WHOLE`: of a cell).

    The layers of a cell under such a kind are segments from its first on, the last of which may be shorter. A segment
    keeps what its first layer keeps under `full`, and takes the time of `full` in all of them. While it goes backward,
    its layers in front hold what they keep without recomputation.

    Raises:
        InputError: layers without `full`, that are frozen, or that must stay together; lengths that are none.
    """
    place = _("the lengths of segments")
    if FULL not in network.kinds:
        raise InputError(
            rule=_("must come with layers that offer full recomputation"),
            place=place,
            remedy=_("give its memory and time in the layer file"),
        )
    if network.frozen_layers or blocks_of(network) is not None:
        rule = _("must be left out where layers are frozen, or stay together in one stage")
        raise InputError(rule=rule, place=place)
    for length in lengths:
        if length != WHOLE and not 2 <= length <= network.num_layers:
            rule = _("must be integers from 2 to the {count} layers, or all of a stage", count=network.num_layers)
            raise InputError(value=length, rule=rule, place=place)
    least = min(run.layer.modes[FULL].activation_bytes for run in network.runs)

    def segmented(layer: Layer) -> Layer:
        full = layer.modes[FULL]
        # What is known of a layer alone: at least its part of the inputs of its segment, for what adds layers up.
        alone = {
            segment_kind(length): Mode(
                activation_bytes=least // length if length else 0,
                backward_ns=full.backward_ns,
                working_bytes=full.working_bytes,
            )
            for length in lengths
        }
        return replace(layer, modes={**layer.modes, **alone})

    return replace(
        network,
        runs=tuple(LayerRun(layer=segmented(run.layer), count=run.count) for run in network.runs),
        segments={segment_kind(length): length for length in lengths},
    )
