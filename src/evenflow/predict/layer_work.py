"""The operators and exchanges of one body layer, forward and backward, on one device for one microbatch."""

from dataclasses import replace

from evenflow.cluster import Collective
from evenflow.cluster.topology import DeviceGroup
from evenflow.predict.attention_work import attention, image_attention, latent_attention, patch_attention, unmasked
from evenflow.predict.expert_work import expert_passes
from evenflow.predict.layer_parts import Addition, Indexer, StateMixer
from evenflow.predict.passes import (
    HALF,
    MASK,
    SINGLE,
    Passes,
    gate,
    image_bytes,
    linear,
    mlp,
    norm,
    shared_training,
    spread_tokens,
    sum_over_tensor,
    tensor_exchanges,
    tokens,
    with_sizes_of,
)
from evenflow.predict.training import Training
from evenflow.predict.transformer import DENSE, LayerKind
from evenflow.predict.work import Exchange, Operators, Spent, elementwise


def layer_passes(training: Training, kind: LayerKind) -> Passes:
    """Return the passes of one body layer, with the block that it shares with others."""
    training = with_sizes_of(training, kind)
    additions = training.model.additions_of(kind)
    passes = _own_passes(training, kind)
    for addition in additions:
        passes += addition_passes(training, addition) if not addition.after_first else Passes((), ())
    passes = passes + expert_passes(training) if kind.experts else passes
    block = shared_training(training) if kind.shared else None
    if block is not None:
        passes = layer_passes(block, DENSE) + passes
    unkept = passes.whole_forward * kind.unkept
    passes = passes.times(kind.passes)
    for addition in additions:
        passes += addition_passes(training, addition).times(kind.passes - 1) if addition.after_first else Passes((), ())
    if kind.frozen:
        return Passes(passes.whole_forward + unkept, ())
    return replace(passes, unkept=passes.unkept + unkept)


def _own_passes(training: Training, kind: LayerKind) -> Passes:
    """Return one pass through a layer of the model's own sizes, without further parts and experts."""
    model = training.model
    training = unmasked(training) if model.bidirectional or model.chunked else training
    passes = _norms(training, model.norms_of(kind), sums=kind.mixes + kind.transforms)
    seen = _seen_tokens(training, kind)
    if kind.sees_images and model.images is not None:
        passes += image_attention(training, model.images.width)
    elif kind.attention:
        passes += latent_attention(training, seen) if model.latent else attention(training, seen)
    if kind.attention and model.crossing is not None:
        passes += patch_attention(training, model.crossing)
    if kind.state and model.states.mixer is not None:
        passes += _state(training, model.states.mixer)
    if kind.mlp:
        passes += mlp(training, model.ffn, module="mlp")
    passes = passes.times(model.repeats)
    if kind.indexer and model.indexer is not None:
        passes += _indexer(training, model.indexer)
    return passes


def addition_passes(training: Training, addition: Addition) -> Passes:
    """Return the work of a further part, which tensor parallelism does not split but by tokens; it has parts of tables.

    What devices look up in their parts of a table is summed over them, as with the embedding.
    """
    here = spread_tokens(training)
    passes = Passes((), ())
    for wide, narrow in addition.products:
        passes += linear(training, here, narrow, wide, addition.name)
    for wide, narrow, parts in addition.repeated:
        passes += linear(training, here * parts, narrow, wide, addition.name)
    if addition.looked_up:
        size = HALF * tokens(training) * addition.looked_up
        passes += Passes((elementwise(2 * size, 1, addition.name),), (elementwise(3 * size, 2, addition.name),))
        if training.degrees.tensor > 1:
            passes += Passes((sum_over_tensor(training, size, addition.name),), ())
    if addition.numbers:
        moved = addition.moves * HALF * here * addition.numbers
        passes += Passes((elementwise(moved, 1, addition.name),), (elementwise(2 * moved, 2, addition.name),))
    return passes


def _seen_tokens(training: Training, kind: LayerKind) -> float:
    """Return the tokens that attention sees, twice those before a token where a window or an indexer bounds them."""
    model, seen = training.model, float(training.sequence)
    if model.chunked is not None:
        return model.chunked.seen(seen)
    chosen = 2.0 * model.indexer.chosen if kind.indexed and model.indexer is not None else seen
    if kind.window and model.window:
        within = min(seen, 2.0 * model.window)
        return min(seen, within + min(chosen, seen / model.together)) if model.together > 1 else within
    return min(seen, chosen)


def _indexer(training: Training, indexer: Indexer) -> Passes:
    """Return the work of choosing tokens: products, and scores of all tokens before each. [arXiv:2512.02556, §2.1]

    Its gradients come from a loss of its own and end in its products.
    """
    model, here = training.model, spread_tokens(training)
    passes = Passes((), ())
    for wide, narrow in indexer.products(model.hidden, model.query_rank):
        passes += linear(training, here, narrow, wide, "indexer")
    share = 0.5 if training.software.skips_masked else 1.0
    scored = here * training.sequence / indexer.per_tokens * share

    def scores(times: float) -> Operators:
        return Operators(
            spent=Spent.ATTENTION, module="indexer", flops=2 * scored * indexer.heads * indexer.width * times,
            moved_bytes=HALF * (here * (indexer.heads + 1) * indexer.width + scored) * times,
            dtype=training.wide_format, depth=indexer.width, calls=2,
        )  # fmt: skip

    return passes + Passes((scores(1.0),), (scores(2.0),))


def message_bytes(training: Training) -> int:
    """Return the bytes of what a stage sends on, before the devices of a tensor group share it out.

    It is what a layer of the model's own sizes gives, the least of all layers (`own_message_bytes`): bounds count it.
    The tokens of images that layers see beside the sequence go along, behind the last of these layers too.
    """
    return round(HALF * tokens(training) * training.model.message_width) + image_bytes(training)


def own_message_bytes(training: Training, kind: LayerKind) -> int | None:
    """Return the same behind a layer that gives more than one of the model's own sizes; None: it does not."""
    size = message_bytes(with_sizes_of(training, kind))
    return None if size == message_bytes(training) else size


def _norms(training: Training, norms: int, *, sums: int) -> Passes:
    """Return the work of a layer's norms and residual sums, with dropout where the model has it."""
    model, fused = training.model, training.software.fused_elementwise
    numbers = spread_tokens(training) * model.hidden
    passed, mask = HALF * numbers, (numbers * MASK if model.dropout else 0.0)
    if fused:
        forward, backward = (3 * passed + mask, 1), (2 * passed + mask, 1)
    elif model.gated:  # an addition, of the residual as of the gradients that meet there; dropout by itself
        dropped, calls = (2 * passed + mask, 2) if mask else (0.0, 1)
        forward = backward = (3 * passed + dropped, calls)
    else:
        forward, backward = (6 * passed + mask, 2), (8 * passed + mask, 3)
    once, again = (elementwise(sums * moved, sums * calls, "residual") for moved, calls in (forward, backward))
    return norm(training, numbers, norms) + Passes((once,), (again,))


def _state(training: Training, state: StateMixer) -> Passes:
    """Return the work of a state mixer: projections, convolution, the state, a gate, the projection out."""
    degrees, hidden = training.degrees, training.model.hidden
    here = tokens(training)
    split = 1 / degrees.tensor
    passes = tensor_exchanges(training, "state")
    passes += linear(training, here, state.into * split, hidden, "state")
    if state.channels:
        moved = 2 * HALF * here * state.channels * split
        passes += Passes((elementwise(moved, 1, "state"),), (elementwise(2 * moved, 2, "state"),))
    for wide, narrow in state.between:
        passes += linear(training, here, narrow, wide * split, "state")
    if state.key_dim:
        passes += _scan(training, state)
        passes += gate(here * state.out * split, "state")
    if degrees.context > 1:
        passes += _state_exchanges(training, state)
    return passes + linear(training, here, hidden, state.out * split, "state")


def _scan(training: Training, state: StateMixer) -> Passes:
    """Return the work of carrying the state along the sequence, in chunks of products or from token to token.

    In a chunk every token's query meets every key, what they weigh is summed, the state is read and written; a delta
    rule solves for new values before, with keys in the place of queries. [Mamba-2, arXiv:2405.21060, §6; gated delta
    networks, arXiv:2412.06464, §3.3]
    """
    here = tokens(training) / training.degrees.tensor
    moved = HALF * here * (state.into + state.out)
    if state.chunk == 1:
        return Passes((elementwise(moved, 1, "state"),), (elementwise(2.5 * moved, 1, "state"),))
    pair, through = state.key_dim + state.value_dim, state.key_dim * state.value_dim
    times = state.chunk * pair + 2 * through
    if state.delta:
        times += state.chunk * (pair + state.key_dim) + through
    moved += 2 * SINGLE * here * state.heads * through / state.chunk

    def products(of_forward: float) -> Operators:
        return Operators(
            spent=Spent.ATTENTION, module="state", flops=2 * here * state.heads * times * of_forward,
            moved_bytes=moved * of_forward, dtype=training.wide_format, depth=min(state.chunk, state.key_dim), calls=3,
        )  # fmt: skip

    return Passes((products(1.0),), (products(2.5),))


def _state_exchanges(training: Training, state: StateMixer) -> Passes:
    """Return what a context group exchanges for a state mixer: each device takes all tokens of some heads, and back."""
    degrees = training.degrees
    once = Exchange(
        spent=Spent.CONTEXT, module="state", group=DeviceGroup(size=degrees.context, stride=degrees.tensor),
        collective=Collective.ALL_TO_ALL,
        size_bytes=HALF * tokens(training) * degrees.context * (state.into + state.out) / degrees.tensor,
    )  # fmt: skip
    return Passes((once,), (once,))
