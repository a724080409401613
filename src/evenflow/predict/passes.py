"""What layers are made of: passes of work, products, norms, MLPs, and the exchanges of a tensor group."""

from dataclasses import dataclass, replace

from evenflow.cluster import Collective
from evenflow.cluster.topology import DeviceGroup
from evenflow.predict.layer_parts import PatchAttention
from evenflow.predict.recipes import recipe_of
from evenflow.predict.training import FORMATS, Training
from evenflow.predict.transformer import LayerKind
from evenflow.predict.work import UNDER_PRODUCTS, Exchange, Spent, Work, elementwise, gradients, product

HALF = 2
"""Bytes of a number in activations."""
SINGLE = 4
"""Bytes of a number in 32 bits: in the loss, the router, the optimizer."""
MASK = 1
"""Bytes of a number in a dropout mask."""
ADAPTERS = "adapters"
"""The sub-module of adapters beside products."""


@dataclass(frozen=True, slots=True)
class Passes:
    """What a layer does in one microbatch."""

    forward: tuple[Work, ...]
    backward: tuple[Work, ...]
    unkept: tuple[Work, ...] = ()
    """Of the forward, what keeps nothing for a backward, which it has not."""

    def __add__(self, other: "Passes") -> "Passes":
        return Passes(self.forward + other.forward, self.backward + other.backward, self.unkept + other.unkept)

    def times(self, count: int) -> "Passes":
        """Return the work of so many passes, one after the other."""
        return Passes(self.forward * count, self.backward * count, self.unkept * count)

    @property
    def whole_forward(self) -> tuple[Work, ...]:
        """Everything that a forward does."""
        return self.forward + self.unkept


def with_sizes_of(training: Training, kind: LayerKind) -> Training:
    """Return the training of the model with the sizes of a layer of this kind; of patches, its tokens are these."""
    if kind.own is None:
        return training
    sized = replace(training, model=training.model.with_sizes_of(kind))
    if sized.model.patches is None or not training.model.own:  # it has these sizes already
        return sized
    model, count = sized.model, sized.model.patches.count(training.sequence)
    if not model.of_patches:
        return replace(sized, model=replace(model, carried=round(model.patch_width * count / training.sequence)))
    beside = round(training.model.hidden * training.sequence / count)
    return replace(sized, sequence=count, model=replace(model, carried=beside))


def shared_training(training: Training) -> Training | None:
    """Return the training of a block that layers share, as if it were a model of its own; None without any."""
    model = training.model
    if model.shared is None:
        return None
    return replace(training, model=replace(model.shared.block, adapter_rank=model.adapter_rank))


def tokens(training: Training) -> float:
    """Return a device's tokens of a microbatch where sequence parallelism does not split them."""
    return training.microbatch * training.sequence / training.degrees.context


def crossing_sides(training: Training, crossing: PatchAttention) -> tuple[Training, Training]:
    """Return the trainings of what asks and of what is seen in attention between tokens and parts of patches."""
    patches = training.model.patches
    assert patches is not None
    parts = replace(training, sequence=crossing.parts * patches.count(training.sequence))
    return (training, parts) if crossing.from_tokens else (parts, training)


def scored_tokens(training: Training) -> float:
    """Return the tokens of a sequence with which attention that writes its scores has one for each token."""
    chunked = training.model.chunked
    return training.sequence if chunked is None else chunked.seen(training.sequence)


def image_tokens(training: Training) -> int:
    """Return the tokens of images beside the sequences of a microbatch, all of which every device of a stage has."""
    return training.microbatch * training.model.image_tokens


def image_bytes(training: Training) -> int:
    """Return the bytes of the tokens of images beside the sequences of a microbatch."""
    images = training.model.images
    return 0 if images is None else HALF * image_tokens(training) * images.width


def spread_tokens(training: Training) -> float:
    """Return a device's tokens of a microbatch where sequence parallelism splits them."""
    degrees = training.degrees
    return tokens(training) / (degrees.tensor if degrees.sequence_parallel else 1)


def sum_over_tensor(training: Training, size_bytes: float, module: str) -> Exchange:
    """Return the sum of a tensor over the devices of a tensor group, after which all of them have it."""
    return Exchange(
        spent=Spent.TENSOR, module=module, group=DeviceGroup(size=training.degrees.tensor),
        collective=Collective.ALL_REDUCE, size_bytes=size_bytes,
    )  # fmt: skip


_ONE_KERNEL, _EAGER, _EAGER_IN_SINGLE = ((2, 1), (4, 2)), ((7, 3), (10, 3)), ((18, 8), (46, 16))
"""Times that a norm reads or writes the bytes of its input, and its operators, forward and backward. The last is that
of gated models: to 32 bits, squared, averaged, the inverse root, multiplied, to 16 bits, weighed."""


def norm(training: Training, numbers: float, count: int, module: str = "layernorm") -> Passes:
    """Return the work of `count` norms over `numbers` values each."""
    eager = _EAGER_IN_SINGLE if training.model.gated else _EAGER
    passes = _ONE_KERNEL if training.software.fused_elementwise else eager
    once, again = (elementwise(times * HALF * numbers * count, n * count, module) for times, n in passes)
    return Passes((once,), (again,))


def linear(
    training: Training, rows: float, columns: float, depth: float, module: str, count: float = 1, *,
    is_router: bool = False,
) -> Passes:  # fmt: skip
    """Return the work of `count` equal products; a router has no adapters."""
    dtype = FORMATS[training.precision]
    recipe = recipe_of(training.precision, training.software.recipe)
    once = product(rows, columns, depth, dtype=dtype, module=module, count=count)
    forward: list[Work] = [replace(once, slowdown=recipe.slowdown)]
    backward: list[Work] = [
        replace(work, slowdown=recipe.slowdown)
        for work in gradients(rows, columns, depth, dtype=dtype, module=module, count=count)
    ]
    casts = min(recipe.casts, 1.0) if training.software.fuses_casts else recipe.casts
    if casts:  # inputs and gradients are cast, and their scales found
        forward.append(elementwise(1.5 * casts * HALF * rows * depth * count, 1, module))
        backward.append(elementwise(2.0 * casts * HALF * rows * columns * count, 1, module))
    if training.model.adapter_rank and not is_router:
        del backward[1]  # the gradient of the weight, which is not trained
        adapters = _adapters(training, rows, columns, depth, count)
        return Passes((*forward, *adapters.forward), (*backward, *adapters.backward))
    return Passes(tuple(forward), tuple(backward))


def _adapters(training: Training, rows: float, columns: float, depth: float, count: float) -> Passes:
    """Return the work of the two narrow products beside one, whose result is added to its own."""
    rank, dtype = training.model.adapter_rank, training.wide_format
    sizes = ((rows, rank, depth), (rows, columns, rank))
    into, out = (product(*size, dtype=dtype, module=ADAPTERS, count=count) for size in sizes)
    into = replace(into, adapters=rank * depth * count, narrow=rows * rank * count)
    out = replace(out, adapters=rank * columns * count)
    added = elementwise(3 * HALF * rows * columns * count, 1, ADAPTERS)
    backward = [
        work for size in reversed(sizes) for work in gradients(*size, dtype=dtype, module=ADAPTERS, count=count)
    ]
    return Passes((into, out, added), tuple(backward))


def tensor_exchanges(training: Training, module: str) -> Passes:
    """Return the tensor-parallel exchanges of one block (attention or MLP). [arXiv:2205.05198, §4.2]"""
    degrees, software = training.degrees, training.software
    if degrees.tensor == 1:
        return Passes((), ())
    numbers = tokens(training) * training.model.hidden
    gathered = recipe_of(training.precision, software.recipe).gathered_bytes
    hidden = UNDER_PRODUCTS if software.overlaps_tensor else 0.0

    def exchange(collective: Collective, share: float = hidden) -> Exchange:
        return Exchange(
            spent=Spent.TENSOR, module=module, group=DeviceGroup(size=degrees.tensor), collective=collective,
            size_bytes=numbers * (gathered if collective is Collective.ALL_GATHER else HALF), hidden_share=share,
        )  # fmt: skip

    if degrees.sequence_parallel:
        both = (exchange(Collective.ALL_GATHER), exchange(Collective.REDUCE_SCATTER))
        again = exchange(Collective.ALL_GATHER, 0.9)  # the input for the weight gradient, under the input gradient
        return Passes(both, (*both, again))
    return Passes((exchange(Collective.ALL_REDUCE),), (exchange(Collective.ALL_REDUCE),))


def gate(numbers: float, module: str) -> Passes:
    """Return the work of weighing `numbers` values by a sigmoid of as many others."""
    return Passes((elementwise(3 * HALF * numbers, 2, module),), (elementwise(5 * HALF * numbers, 3, module),))


def mlp(training: Training, width: float, *, module: str) -> Passes:
    """Return the work of an MLP of this width."""
    model, degrees = training.model, training.degrees
    here, own = tokens(training), width / degrees.tensor
    inner = (2 if model.gated else 1) * own
    passes = tensor_exchanges(training, module)
    passes += linear(training, here, inner, model.hidden, module)
    passes += activation(training, here * inner, here * own, module)
    return passes + linear(training, here, model.hidden, own, module)


def activation(training: Training, read: float, written: float, module: str) -> Passes:
    """Return the work of an activation function that reads and writes so many numbers."""
    if training.model.gated and not training.software.fused_elementwise:  # the activation, and the product
        size = HALF * written
        return Passes((elementwise(5 * size, 2, module),), (elementwise(9 * size, 3, module),))
    calls, times = (1, 1.0) if training.software.fused_elementwise else (3, 2.5)
    forward = elementwise(times * HALF * (read + written), calls, module)
    backward = elementwise(times * HALF * (2 * read + written), calls, module)
    return Passes((forward,), (backward,))
