"""The memory of every pipeline rank by purpose, at the moment when the simulator finds it fullest."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.reached import Reached
from evenflow.model import NONE
from evenflow.predict.activations import (
    boundary_bytes,
    head_activations,
    head_working,
    layer_activations,
    layer_working,
    tail_activations,
    tail_working,
)
from evenflow.predict.held import Held, Parts, added, largest, total
from evenflow.predict.memory_error import margin, probability_within
from evenflow.predict.parameters import (
    Parameters,
    dense_group,
    expert_group,
    head_parameters,
    layer_parameters,
    shared_parameters,
    tail_parameters,
    used_parameters,
)
from evenflow.predict.passes import HALF, tokens
from evenflow.predict.state import state_bytes, state_parts
from evenflow.predict.training import Sharding, Training
from evenflow.predict.transformer import LayerKind
from evenflow.simulate import Simulation, live_at_peak

__all__ = [
    "Held",
    "RankMemory",
    "constant_bytes",
    "device_bytes_for",
    "fit_probability",
    "fullest",
    "rank_memory",
    "usable_bytes",
]

_WORKSPACE = 32 * 2**20
"""Bytes that a matrix library keeps for the thread of the forward, and for that of the backward.

[PyTorch, aten/src/ATen/cuda/CublasHandlePool.cpp; deterministic training asks for as many on older devices]
"""
_LAYER_WORKSPACES = (4 * 2**20, 32 * 2**20)
"""Bytes that fused layers keep, before devices that multiply in 8 bits, and on these.

[Transformer Engine, transformer_engine/pytorch/module/base.py: get_cublas_workspace_size_bytes]
"""
_OVERLAPPED_PRODUCTS = 10
"""Products that exchange parts while they run, each with a buffer for all tokens: of the queries and of the MLP's first
matrix forward, for input and for weight; of the two others forward and for input."""
_OVERLAPPED_STREAMS = 3
"""Parts that they run at once, each with a workspace. [the same, initialize_ub]"""
_ACTIVATIONS = (Held.NORMS, Held.ATTENTION, Held.MLP, Held.EXPERTS, Held.LOGITS)
_CACHED = 0.12
"""Of what is allocated, what an allocator keeps besides for later use. It gives that back before it fails.

Sources apart say 0.08 (eight runs of torchtitan, which state what was reserved) and 0.12 to 0.15 (58 readings of
devices that trained models of 1 to 200 B parameters).
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMemory:
    """What one rank holds at its fullest moment."""

    parts: Parts
    """Bytes by what they are held for."""

    @property
    def total_bytes(self) -> int:
        """All bytes of the rank: what its device must have."""
        return total(self.parts)

    @property
    def needed_bytes(self) -> int:
        """All bytes but the driver's: what a framework needs, blocks included that its allocator cannot use."""
        return self.total_bytes - self.parts.get(Held.DRIVER, 0)

    @property
    def allocated_bytes(self) -> int:
        """What a framework counts as allocated: neither the reserve nor what the driver takes."""
        return self.needed_bytes - self.parts.get(Held.RESERVE, 0)

    @property
    def reserved_bytes(self) -> int:
        """What an allocator has from the device while there is room: what is needed, and blocks kept for later use."""
        return self.needed_bytes + round(_CACHED * self.allocated_bytes)

    @property
    def device_bytes(self) -> int:
        """What the device itself shows: what the allocator has, and what the driver takes."""
        return self.reserved_bytes + self.parts.get(Held.DRIVER, 0)


def constant_bytes(training: Training, accelerator: Accelerator) -> int:
    """Return the bytes that every rank holds: workspaces, messages of ranks, gathered parameters, shared blocks."""
    messages = 2 * boundary_bytes(training) if training.degrees.pipeline > 1 else 0
    layers = _LAYER_WORKSPACES[accelerator.rate("float8") > accelerator.rate("bfloat16")]
    overlapped = 0
    if training.software.overlaps_tensor and training.degrees.tensor > 1:
        layers *= _OVERLAPPED_STREAMS
        overlapped = round(_OVERLAPPED_PRODUCTS * HALF * tokens(training) * training.model.hidden)
    shared = state_bytes(training, shared_parameters(training))
    return 2 * _WORKSPACE + layers + messages + overlapped + _gathered_bytes(training) + shared


def _gathered_bytes(training: Training) -> int:
    """Return what fully sharded parameters take while they are whole: two layers' weights and one layer's gradients.

    The next layer is gathered while one runs; gradients are summed up in the format in which they are kept. Beside a
    pipeline all of them are whole (`state_parts`).
    """
    if training.degrees.sharding is not Sharding.PARAMETERS or training.degrees.pipeline > 1:
        return 0
    model = training.model
    every = [used_parameters(training, replace(kind, passes=1, unkept=0)) for kind in set(model.kinds)]
    most = max(_unshared(training, parameters) for parameters in every)
    return round(most * (2 * HALF + HALF + training.software.gradient_bytes))


def _unshared(training: Training, parameters: Parameters) -> float:
    """Return the parameters that must be gathered to be whole."""
    dense = parameters.dense if dense_group(training.degrees).size > 1 else 0
    return dense + (parameters.expert if expert_group(training).size > 1 else 0)


def rank_memory(training: Training, simulation: Simulation, reached: Reached) -> tuple[RankMemory, ...]:
    """Return the memory of every rank at its fullest moment.

    Its parts but the reserve and the driver's add up to `simulation.peak_memory_bytes`; the reserve is a share of that.
    """
    schedule, costs = simulation.timeline.schedule, simulation.costs
    stages = _stages(training, simulation)
    shared = state_parts(training, shared_parameters(training))
    buffers = {Held.BUFFERS: simulation.network.constant_bytes - total(shared)}
    memory = []
    for rank in range(schedule.num_ranks):
        own = [int(stage) for stage in schedule.stage_table[:, rank]]
        live = live_at_peak(schedule, costs, rank)
        working = largest(block.working for stage in own for block, _count in stages[stage])
        parts = added(buffers, shared, working)
        for place, stage in enumerate(own):
            waiting = int(live[len(own) + place]) if schedule.splits_backward else 0
            for block, count in stages[stage]:
                parts = added(parts, added(block.static, times=count))
                parts = added(parts, _shared(block.activations, count * float(live[place])))
                parts = added(parts, added(block.until_weight, times=count * waiting))
        if costs.pair_bytes is not None:  # shares of what a pair holds are rounded
            fullest_part = max(parts, key=lambda held: parts[held] if held in _ACTIVATIONS else -1)
            parts[fullest_part] += simulation.peak_memory_bytes[rank] - total(parts)
        parts[Held.RESERVE] = round(reached.reserve_share * total(parts))
        parts[Held.DRIVER] = round(reached.driver_bytes)
        memory.append(RankMemory(parts=parts))
    return tuple(memory)


def _shared(parts: Parts, times: float) -> Parts:
    """Return so many times these bytes, rounded."""
    return {held: round(times * size) for held, size in parts.items()}


def fullest(memory: tuple[RankMemory, ...]) -> int:
    """Return the first of the ranks that hold most."""
    totals = [rank.total_bytes for rank in memory]
    return totals.index(max(totals))


def usable_bytes(limit_bytes: int, reached: Reached, *, confidence: float | None = None) -> int:
    """Return what tensors of a rank may take on a device of `limit_bytes`: no reserve, and nothing of the driver's.

    With a confidence, so much that a rank fits with this probability (see `memory_error`); at least one byte.
    """
    for_framework = limit_bytes - round(reached.driver_bytes)
    return max(1, int(for_framework / ((1 + reached.reserve_share) * margin(confidence))))


def device_bytes_for(held_bytes: float, reached: Reached, *, confidence: float | None = None) -> int:
    """Return the memory of a device on which tensors may take `held_bytes`: the inverse of `usable_bytes`."""
    share = (1 + reached.reserve_share) * margin(confidence)
    device_bytes = ceil(held_bytes * share) + round(reached.driver_bytes)
    while usable_bytes(device_bytes, reached, confidence=confidence) < held_bytes:
        device_bytes += 1
    return device_bytes


def fit_probability(memory: Sequence[RankMemory], limit_bytes: int) -> float:
    """Return the probability that all ranks fit into devices of `limit_bytes`.

    Predictions of the ranks of one run are off together, so that the fullest of them decides.
    """
    room = (limit_bytes - rank.parts.get(Held.DRIVER, 0) for rank in memory)
    return min(probability_within(left / rank.needed_bytes) for left, rank in zip(room, memory, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    """The memory of a layer, the head or the tail: always held, per microbatch, and while it runs."""

    static: Parts
    activations: Parts
    until_weight: Parts
    """Of each microbatch whose weight gradient waits."""
    working: Parts


_Stage = list[tuple[_Block, int]]
"""Blocks of a stage, and how many there are of each."""


def _layer(training: Training, layer: LayerKind, kind: str) -> _Block:
    return _Block(
        static=state_parts(training, layer_parameters(training, layer)),
        activations=layer_activations(training, layer, kind=kind),
        until_weight=layer_activations(training, layer, kind=NONE),
        working=layer_working(training, layer, kind=kind),
    )


def _head(training: Training) -> _Block:
    activations = head_activations(training)
    static = state_parts(training, head_parameters(training))
    return _Block(static=static, activations=activations, until_weight=activations, working=head_working(training))


def _tail(training: Training) -> _Block:
    activations = tail_activations(training)
    static = state_parts(training, tail_parameters(training, has_embedding=training.degrees.pipeline == 1))
    return _Block(static=static, activations=activations, until_weight=activations, working=tail_working(training))


def _stages(training: Training, simulation: Simulation) -> list[_Stage]:
    """Return the blocks of every stage."""
    plan, table = simulation.plan, simulation.timeline.schedule.stage_table
    num_chunks, num_ranks = table.shape
    cells = sorted((int(table[c, r]), c, r) for c in range(num_chunks) for r in range(num_ranks))
    made: dict[tuple[LayerKind, str], _Block] = {}
    layers = training.model.kinds
    blocks: list[_Stage] = []
    layer = 0
    for _stage, chunk, rank in cells:
        # Layers of a recompute kind stand together, in the order of a cell.
        kinds = [kind for kind in simulation.network.kinds for _ in range(plan.count(kind, chunk, rank))]
        counts = Counter((layers[layer + place], kind) for place, kind in enumerate(kinds))
        for block_kind in counts:
            if block_kind not in made:
                made[block_kind] = _layer(training, *block_kind)
        blocks.append([(made[block_kind], count) for block_kind, count in counts.items()])
        layer += len(kinds)
    blocks[0].append((_head(training), 1))
    blocks[-1].append((_tail(training), 1))
    return blocks
