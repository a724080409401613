"""Bytes of activations that one microbatch keeps on a device until its backward, by purpose, and what a pass needs."""

from collections.abc import Iterator
from dataclasses import replace

from evenflow.model import FULL, NONE
from evenflow.predict.held import Held, added, largest, total
from evenflow.predict.layer_parts import Addition
from evenflow.predict.layer_tensors import (
    HASHES,
    ROUTER,
    SENT,
    SHARED,
    Tensor,
    addition_tensor,
    dropout_tensors,
    input_item,
    inside_tensors,
    layer_tensors,
    pass_tensors,
)
from evenflow.predict.parameters import dense_group, padded_vocabulary
from evenflow.predict.passes import (
    HALF,
    SINGLE,
    crossing_sides,
    image_bytes,
    image_tokens,
    scored_tokens,
    shared_training,
    spread_tokens,
    tokens,
    with_sizes_of,
)
from evenflow.predict.tower import TowerPart, tower_parts
from evenflow.predict.training import PRODUCTS, Sharding, Training
from evenflow.predict.transformer import DENSE, LayerKind

_WAITING_LOSS = ("f-then-b", "gpipe", "breadth-first")
"""Schedule families in which the last stage does not run a backward right after its forward."""


def layer_activations(training: Training, layer: LayerKind, *, kind: str) -> dict[Held, int]:
    """Return the bytes that one body layer keeps on the device under a recompute kind, by purpose."""
    moved = training.moved_under(kind)
    return _sums(tensor for tensor in _kept(training, layer, kind) if tensor.moved_with not in moved)


def expert_bytes(training: Training, layer: LayerKind, *, kind: str) -> int:
    """Return those of them that routed experts keep of what they compute; nothing where any of it moves to the host.

    The tokens that were sent to them are there before, while the other microbatch still computes; router and shared
    experts count with attention, as in `Halves`.
    """
    if training.moved_under(kind):
        return 0
    own = (tensor for tensor in _kept(training, layer, kind) if tensor.held is Held.EXPERTS)
    return total(_sums([tensor for tensor in own if not (tensor.name in (ROUTER, SENT) or tensor.module == SHARED)]))


def moved_bytes(training: Training, layer: LayerKind, *, kind: str) -> int:
    """Return the bytes that one body layer keeps on the host under a recompute kind."""
    moved = training.moved_under(kind)
    if not moved:
        return 0
    return total(_sums(tensor for tensor in _kept(training, layer, kind) if tensor.moved_with in moved))


def _kept(training: Training, layer: LayerKind, kind: str) -> Iterator[Tensor]:
    return (tensor for tensor in layer_tensors(training, layer) if _is_kept(training, tensor, kind))


def layer_working(training: Training, layer: LayerKind, *, kind: str) -> dict[Held, int]:
    """Return the bytes that the backward of a body layer needs at its peak, beside the activations that were kept.

    Tensors are computed again, and gradients come up: first those of the MLP, then those of attention, when the MLP's
    tensors are free again.
    """
    if layer.frozen:
        return {}
    block = shared_training(training) if layer.shared else None
    if block is not None:  # the layer's own part goes backward first, when all of it has been computed again
        dropped = _sums([tensor for tensor in layer_tensors(block, DENSE) if not _is_kept(block, tensor, kind)])
        own = layer_working(training, replace(layer, shared=False), kind=kind)
        return dict(largest([added(dropped, own), layer_working(block, DENSE, kind=kind)]))
    once, later = pass_tensors(training, layer)
    tensors = once + later if layer.passes > 1 else once
    training = with_sizes_of(training, layer)
    of_mlp = {Held.MLP, Held.EXPERTS}
    # The last product of an MLP is kept for nobody: a layer that is computed again stops before it.
    again = [tensor for tensor in tensors if not _is_kept(training, tensor, kind) and tensor.instead_of != PRODUCTS]
    free = sum(tensor.size_bytes for tensor in tensors if tensor.held in of_mlp and tensor not in again)
    stream = 2 * HALF * spread_tokens(training) * training.model.given + _gathered(training)
    mlp = _mlp_gradients(training, layer)
    of_mixers = (_attention_gradients(training, layer) if layer.attention else 0) + (_state_gradients(training, layer))
    of_mixers = max(of_mixers, _crossing_gradients(training) if layer.attention else 0)
    attention = Tensor("gradients of attention", Held.ATTENTION, max(0.0, of_mixers - free))
    passed = Tensor("gradients between blocks", Held.NORMS, stream)
    first = _sums([*again, mlp, passed])
    second = _sums([*(tensor for tensor in again if tensor.held not in of_mlp), attention, passed])
    return dict(largest([first, second]))


def head_activations(training: Training) -> dict[Held, int]:
    """Return what the embedding and the encoders in front of it keep."""
    return added(embedding_activations(training), *(tower_activations(part) for part in tower_parts(training)))


def head_working(training: Training) -> dict[Held, int]:
    """Return the bytes that the backward of a block of an encoder needs at its peak."""
    return dict(
        largest(
            layer_working(part.training, part.part, kind=part.kind)
            for part in tower_parts(training)
            if not isinstance(part.part, Addition)
        )
    )


def tower_activations(part: TowerPart) -> dict[Held, int]:
    """Return what parts of an encoder keep, together."""
    if not isinstance(part.part, Addition):
        kept = layer_activations(part.training, part.part, kind=part.kind)
    else:
        kept = _sums([addition_tensor(part.training, part.part)] if part.is_trained else [])
    return added(kept, times=part.count)


def embedding_activations(training: Training) -> dict[Held, int]:
    """Return what the embedding keeps: its tokens and a dropout mask; its output counts as the first layer's input."""
    kept = [Tensor("tokens", Held.NORMS, 8 * tokens(training)), *dropout_tensors(training, "embedding's dropout")]
    return _sums([*kept, *(addition_tensor(training, addition) for addition in training.model.head_additions)])


def tail_activations(training: Training) -> dict[Held, int]:
    """Return what the last norm, the output layer and the loss keep.

    The logits' softmax is among them where other forwards run before its backward; else a pass works with it.
    """
    model = training.model
    before = sum(addition.kept for addition in model.tail_additions)
    normed = {Held.NORMS: round(HALF * spread_tokens(training) * (2 * model.last_width + before))}
    block = layer_activations(training, model.further_kind, kind=training.recompute)
    further = added(
        block, joined_activations(training), {Held.LOGITS: _kept_logits(training)}, times=model.predicted_tokens
    )
    return added(normed, further, {Held.LOGITS: _kept_logits(training) if loss_waits(training) else 0})


def joined_activations(training: Training, *, kind: str = NONE) -> dict[Held, int]:
    """Return what a block that predicts a further token keeps before its layer, under a recompute kind.

    Two norms keep their inputs, and the product of both results keeps those; under full recomputation the embedded
    tokens stay, beside the input of the layer.
    """
    numbers = 1 if kind == FULL else 4
    return {Held.NORMS: round(numbers * HALF * spread_tokens(training) * training.model.hidden)}


def further_logits(training: Training) -> dict[Held, int]:
    """Return what the losses of further tokens keep until their backwards."""
    return {Held.LOGITS: training.model.predicted_tokens * _kept_logits(training)}


def tail_working(training: Training) -> dict[Held, int]:
    """Return the working memory of the loss: logits in 16 bits and their softmax in 32.

    A loss that does not work in place has the gradients of the softmax and of the logits beside it, in 32 bits; a
    compiled one has the logits and their gradients, both in 16. A fully sharded output layer is whole meanwhile, where
    the pipeline does not keep all of them whole.
    """
    softmax = _softmax(training)
    beside = softmax * HALF // SINGLE if training.software.fused_loss else 2 * softmax
    needed = {Held.LOGITS: beside + (0 if loss_waits(training) else _kept_logits(training))}
    degrees = training.degrees
    if degrees.sharding is Sharding.PARAMETERS and degrees.pipeline == 1 and dense_group(degrees).size > 1:
        own_vocabulary = padded_vocabulary(training) / training.degrees.tensor
        needed[Held.BUFFERS] = round(HALF * own_vocabulary * training.model.last_width)
    return needed


def loss_waits(training: Training) -> bool:
    """Whether other forwards run between the loss of a microbatch and its backward."""
    return training.schedule in _WAITING_LOSS


def _softmax(training: Training) -> int:
    split = 1 if training.software.gathers_logits else training.degrees.tensor
    return round(SINGLE * tokens(training) * padded_vocabulary(training) / split)


def _kept_logits(training: Training) -> int:
    """Return what a loss keeps of its logits until its backward: their softmax in 32 bits, or themselves in 16."""
    numbers = _softmax(training)
    return numbers * HALF // SINGLE if training.software.compiled_loss else numbers


def _sums(tensors: Iterator[Tensor] | list[Tensor]) -> dict[Held, int]:
    result: dict[Held, float] = {}
    for tensor in tensors:
        result[tensor.held] = result.get(tensor.held, 0.0) + tensor.size_bytes
    return {held: round(size) for held, size in result.items()}


def _is_kept(training: Training, tensor: Tensor, kind: str) -> bool:
    if training.model.reversible:
        return tensor.name == HASHES
    if kind == FULL:
        return tensor.name == "input"
    dropped = training.modules_under(kind)
    if tensor.instead_of:
        return tensor.instead_of in dropped or (PRODUCTS in dropped and not tensor.between_products)
    return tensor.module not in dropped and not (tensor.between_products and PRODUCTS in dropped)


def _attention_gradients(training: Training, layer: LayerKind) -> float:
    """Return the bytes of gradients that attention's backward holds at once: of its scores, or of its inputs."""
    model, degrees = training.model, training.degrees
    here = tokens(training)
    seen, keyed = (model.image_tokens, image_tokens(training)) if layer.sees_images else (scored_tokens(training), here)
    if training.software.fused_attention:
        return HALF * model.head_dim * (2 * model.heads * here + 2 * model.kv_heads * keyed) / degrees.tensor
    # Of the softmax and of what it takes; behind a dropout, what it let through is free again before the second.
    return (1 if model.dropout else 2) * HALF * model.heads / degrees.tensor * here * seen


def _crossing_gradients(training: Training) -> float:
    """Return the same of attention between tokens and patches."""
    model, tensor = training.model, training.degrees.tensor
    if model.crossing is None:
        return 0.0
    asking, seen = crossing_sides(training, model.crossing)
    if training.software.fused_attention:
        return HALF * 2 * model.head_dim * (model.heads * tokens(asking) + model.kv_heads * tokens(seen)) / tensor
    return 2 * HALF * model.heads / tensor * tokens(asking) * seen.sequence


def _state_gradients(training: Training, layer: LayerKind) -> float:
    """Return the bytes of gradients that a state mixer's backward holds at once: of what its kernels read."""
    state = training.model.states.mixer
    if not layer.state or state is None:
        return 0.0
    return HALF * tokens(training) / training.degrees.tensor * (state.into + state.channels)


def _mlp_gradients(training: Training, layer: LayerKind) -> Tensor:
    """Return the gradients of an MLP's activation inputs; the gradient of its output reuses the output's memory."""
    inside = inside_tensors(training, layer)
    taken = [tensor for tensor in inside if tensor.name.startswith(("input of the activation", "factor of"))]
    held, wider = Held.EXPERTS if layer.experts else Held.MLP, HALF / input_item(training)
    return Tensor("gradients of the MLP", held, wider * sum(tensor.size_bytes for tensor in taken))


def _gathered(training: Training) -> float:
    """Return the bytes of a block's input, which sequence parallelism gathers anew for each pass."""
    degrees = training.degrees
    split = degrees.sequence_parallel and degrees.tensor > 1
    return HALF * tokens(training) * training.model.hidden if split else 0.0


def boundary_bytes(training: Training) -> int:
    """Return the bytes of the longest message between two stages."""
    sized = (with_sizes_of(training, kind) for kind in set(training.model.kinds))
    widest = max(spread_tokens(one) * one.model.message_width for one in sized)
    return round(HALF * widest) + image_bytes(training)
