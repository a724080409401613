"""A network from the times of profilers' timelines."""

from collections.abc import Sequence

from evenflow.model import NONE, EndBlock, Layer, LayerRun, Mode, Network
from evenflow.profiles.traces.layer_times import BlockTime
from evenflow.profiles.traces.reader import TraceTimes


def network_of_traces(times: TraceTimes, layer_counts: Sequence[int], *, name: str) -> Network:
    """Return the model as far as timelines tell: times but no memory; `layer_counts` has a number for each body."""
    return Network(
        name=name,
        runs=tuple(
            LayerRun(
                layer=Layer(
                    name=block.name,
                    forward_ns=block.forward_ns,
                    parameter_bytes=0,
                    modes={NONE: Mode(activation_bytes=0, backward_ns=block.known_backward_ns)},
                    halves=block.halves,
                ),
                count=count,
            )
            for block, count in zip(times.bodies, layer_counts, strict=True)
        ),
        head=_end_block(times.head),
        tail=_end_block(times.tail),
        has_memory=False,
    )


def _end_block(block: BlockTime | None) -> EndBlock:
    if block is None:
        return EndBlock()
    return EndBlock(name=block.name, forward_ns=block.forward_ns, backward_ns=block.known_backward_ns)
