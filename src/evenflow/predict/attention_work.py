"""The operators and exchanges of attention, with ordinary heads or latent."""

from dataclasses import replace

from evenflow.cluster import Collective
from evenflow.cluster.topology import DeviceGroup
from evenflow.predict.expert_work import attention_experts
from evenflow.predict.layer_parts import NarrowEnds, PatchAttention
from evenflow.predict.passes import (
    HALF,
    MASK,
    Passes,
    crossing_sides,
    gate,
    image_tokens,
    linear,
    norm,
    spread_tokens,
    tensor_exchanges,
    tokens,
)
from evenflow.predict.training import QUERY_NORMS, Training
from evenflow.predict.transformer import Transformer
from evenflow.predict.work import Exchange, Operators, Spent, elementwise

_SORTING_CALLS = 8
"""Operators that find and sort the hashes of tokens: random rotations, a product, both signs, the largest, offsets, the
order and its reverse."""


def attention(training: Training, seen: float) -> Passes:
    """Return the work of attention with ordinary heads, whose tokens see `seen` others."""
    model, degrees = training.model, training.degrees
    here = tokens(training)
    queries = model.heads * model.head_dim / degrees.tensor
    kv_heads = max(model.kv_heads / degrees.tensor, 1)
    keys = kv_heads * model.head_dim if model.key_products else 0
    out = model.heads * model.value_width / degrees.tensor
    passes = tensor_exchanges(training, "attention")
    width = key_numbers(model) + (0 if model.attention_experts else model.heads * model.head_dim)
    width += model.heads * model.value_width if model.output_gate else 0
    narrow = model.narrow_ends
    if narrow is None:
        passes += linear(training, here, width / degrees.tensor, model.read_width, "qkv")
    else:
        passes += linear(training, here, key_numbers(model), model.hidden, "qkv")
        passes += _narrow_ends(training, narrow)
    if model.kv_heads < degrees.tensor:
        passes += _split_heads(training, width)
    passes += norm(training, here * queries, bool(model.norms.queries), QUERY_NORMS)
    passes += norm(training, here * keys, bool(model.norms.keys), QUERY_NORMS)
    passes += _rotary(training, here * (queries + keys))
    passes += _distances(training, queries, seen=seen)
    passes += _hashes(training, queries)
    passes += _core(training, queries, out, seen=seen)
    passes += _context_exchanges(training, kv_heads * (model.head_dim + model.value_width))
    if model.output_gate:
        passes += gate(here * out, "core_attn")
    if model.attention_experts:
        return passes + attention_experts(training)
    return passes if narrow else passes + linear(training, here, model.hidden, out, "out")


def image_attention(training: Training, width: int) -> Passes:
    """Return the work of attention to images, whose tokens have `width` numbers and are seen by every token."""
    model, tensor = training.model, training.degrees.tensor
    here, seen = tokens(training), image_tokens(training)
    queries, out = model.heads * model.head_dim / tensor, model.heads * model.value_width / tensor
    passes = tensor_exchanges(training, "attention")
    passes += linear(training, here, queries, model.hidden, "qkv")
    passes += linear(training, seen, key_numbers(model) / tensor, width, "qkv")
    passes += norm(training, here * queries, bool(model.norms.queries), QUERY_NORMS)
    passes += norm(training, seen * model.kv_heads * model.head_dim / tensor, bool(model.norms.keys), QUERY_NORMS)
    passes += _core(unmasked(training), queries, out, seen=model.image_tokens)
    return passes + linear(training, here, model.hidden, out, "out")


def patch_attention(training: Training, crossing: PatchAttention) -> Passes:
    """Return the work of attention between tokens and patches, whose parts are projected first where they are new."""
    model, tensor = training.model, training.degrees.tensor
    asking, seen = crossing_sides(training, crossing)
    passes = tensor_exchanges(asking, "attention")
    if crossing.projected:
        of_patches = tokens(seen if crossing.from_tokens else asking) / crossing.parts
        passes += linear(training, of_patches, crossing.parts * model.hidden / tensor, crossing.projected, "qkv")
    if not crossing.from_tokens:
        pooled = HALF * tokens(training) * model.hidden
        passes += Passes((elementwise(pooled, 1, "qkv"),), (elementwise(2 * pooled, 1, "qkv"),))
    width = model.heads * model.head_dim / tensor
    passes += norm(training, (spread_tokens(asking) + spread_tokens(seen)) * model.hidden, 1, "qkv")
    passes += linear(asking, tokens(asking), width, model.hidden, "qkv")
    passes += linear(seen, tokens(seen), key_numbers(model) / tensor, model.hidden, "qkv")
    passes += _core(unmasked(asking), width, width, seen=seen.sequence)
    passes += linear(asking, tokens(asking), model.hidden, width, "out")
    added = 3 * HALF * spread_tokens(asking) * model.hidden
    return passes + Passes((elementwise(2 * added, 2, "residual"),), (elementwise(2 * added, 2, "residual"),))


def unmasked(training: Training) -> Training:
    """Return the training of attention that sees all tokens, of which no kernel could skip any."""
    return replace(training, software=replace(training.software, skips_masked=False))


def key_numbers(model: Transformer) -> int:
    """Return the numbers of a token that the products for keys and values give."""
    if model.key_products < 2:
        return model.key_products * model.kv_heads * model.head_dim
    return model.kv_heads * (model.head_dim + model.value_width)


def _narrow_ends(training: Training, narrow: NarrowEnds) -> Passes:
    """Return the work of narrow products at both ends of attention; wide ends are shared out over tensor groups."""
    model, split, passes = training.model, training.degrees.tensor, Passes((), ())
    wide = model.heads * model.head_dim, model.heads * model.value_width
    for read, given, count in narrow.products(model.hidden, *wide):
        passes += linear(training, tokens(training) / split, given, read, "qkv", count)
    return passes


def _split_heads(training: Training, width: float) -> Passes:
    """Return the all-gather of key and value heads that are split over several devices, `width` numbers per token.

    Each takes what it needs. [Megatron-LM, `Attention.get_query_key_value_tensors`]
    """
    size = HALF * tokens(training) * width

    def exchange(collective: Collective) -> Exchange:
        return Exchange(
            spent=Spent.TENSOR, module="qkv", group=DeviceGroup(size=training.degrees.tensor), collective=collective,
            size_bytes=size,
        )  # fmt: skip

    return Passes((exchange(Collective.ALL_GATHER),), (exchange(Collective.REDUCE_SCATTER),))


def _rotary(training: Training, numbers: float) -> Passes:
    model = training.model
    if model.positions or model.distances or model.chunked:
        return Passes((), ())
    fused = training.software.fused_elementwise
    passes = ((2, 1), (2, 1)) if fused else ((10, 10), (16, 16))  # eager: halves swapped, two products, their sum
    once, again = (elementwise(times * HALF * numbers, calls, "rotary") for times, calls in passes)
    return Passes((once,), (again,))


def latent_attention(training: Training, seen: float) -> Passes:
    """Return the work of latent attention, whose tokens see `seen` others."""
    model, degrees, latent = training.model, training.degrees, training.model.latent
    assert latent is not None
    here, spread = tokens(training), spread_tokens(training)
    heads = model.heads / degrees.tensor
    width = latent.plain_dim + latent.rotary_dim
    passes = tensor_exchanges(training, "attention")
    if latent.query_rank:
        passes += linear(training, spread, latent.query_rank, model.hidden, "qkv")
        passes += linear(training, here, heads * (width + latent.gate_dim), latent.queried, "mla_up_proj")
    else:
        passes += linear(training, here, heads * width, model.hidden, "qkv")
    if model.key_products:
        passes += linear(training, spread, latent.key_value_rank + latent.rotary_dim, model.hidden, "qkv")
    passes += linear(
        training, here, heads * (latent.plain_dim + latent.value_dim), latent.key_value_rank, "mla_up_proj"
    )
    if latent.rotary_dim:
        passes += _rotary(training, here * (2 if model.key_products else 1) * heads * width)
    passes += _core(training, heads * width, heads * latent.value_dim, seen=seen)
    passes += _context_exchanges(training, heads * (width + latent.value_dim))
    if model.output_gate:
        passes += linear(training, here, heads * latent.value_dim, model.hidden, "qkv")
    if model.output_gate or latent.gate_of_queries:
        passes += gate(here * heads * latent.value_dim, "core_attn")
    return passes + linear(training, here, model.hidden, heads * latent.value_dim, "out")


def _core(training: Training, keyed: float, valued: float, *, seen: float) -> Passes:
    """Return the work of the attention core; `keyed` and `valued` are a device's widths of queries and values."""
    model, software, here = training.model, training.software, tokens(training)
    flops = 2 * here * seen * (keyed + valued)
    heads = max(1.0, keyed / (model.head_dim or 1)) if model.latent is None else model.heads / training.degrees.tensor
    dtype = training.wide_format
    if software.fused_attention:
        share = 0.5 if software.skips_masked else 1.0
        moved = HALF * here * (2 * keyed + 2 * valued)

        def fused(times: float) -> Operators:
            return Operators(
                spent=Spent.ATTENTION, module="core_attn", flops=flops * share * times, moved_bytes=moved * times,
                dtype=dtype, calls=1, slowdown=software.attention_slowdown,
            )  # fmt: skip

        return Passes((fused(1.0),), (fused(2.5),))
    scores = HALF * heads * here * seen
    depth = keyed / heads
    is_misaligned = bool(depth % 8)  # 16-bit numbers in 16 bytes

    def batched(length: float) -> Operators:
        return Operators(
            spent=Spent.ATTENTION, module="core_attn", flops=flops / 2,
            moved_bytes=scores + HALF * here * (keyed + valued), dtype=dtype, depth=length,
            is_misaligned=is_misaligned,
        )  # fmt: skip

    mask = scores / HALF * MASK if model.dropout else 0.0
    softmax = elementwise(2 * scores, 1, "core_attn")
    dropout = [elementwise(2 * scores + mask, 1, "core_attn")] if model.dropout else []
    forward = [batched(depth), batched(seen), softmax, *dropout]
    backward = [
        batched(depth), batched(depth), batched(seen), batched(seen), elementwise(3 * scores, 1, "core_attn"), *dropout
    ]  # fmt: skip
    return Passes(tuple(forward), tuple(backward))


def _distances(training: Training, queries: float, *, seen: float) -> Passes:
    """Return the work of scores of distances, which are shifted into the order of tokens and added to their scores.

    They are written whatever the kernel of attention, which takes them as a bias.
    """
    model, here = training.model, tokens(training)
    if not model.distances:
        return Passes((), ())
    scores = here * seen * queries / model.head_dim
    many = model.distances * scores

    def product(depth: float) -> Operators:
        return Operators(
            spent=Spent.ATTENTION, module="core_attn", flops=2 * many * model.head_dim,
            moved_bytes=HALF * (many + here * queries * (1 + model.distances)), dtype=training.wide_format, depth=depth,
        )  # fmt: skip

    shift = elementwise(HALF * (many + scores), 2, "core_attn")
    both = (product(model.distances * seen), product(model.distances * seen))
    return Passes((product(model.head_dim), shift), (shift, *both))


def _hashes(training: Training, queries: float) -> Passes:
    """Return the work of hashing: rotations of queries without gradients, and vectors in the order of their hashes.

    Backwards take the hashes of the forward. Queries, values and outputs change their order in every round.
    """
    chunked, here = training.model.chunked, tokens(training)
    rounds = 0 if chunked is None else chunked.rounds(training.sequence)
    if chunked is None or not rounds:
        return Passes((), ())
    rotated = chunked.rotated(training.sequence)
    heads = queries / training.model.head_dim
    rotation = Operators(
        spent=Spent.ATTENTION, module="core_attn", flops=2 * here * queries * rotated,
        moved_bytes=HALF * here * (queries + heads * rotated), dtype=training.wide_format,
        depth=training.model.head_dim, calls=_SORTING_CALLS,
    )  # fmt: skip
    ordered = elementwise(2 * HALF * here * 3 * queries * rounds, 3, "core_attn")
    return Passes((ordered,), (ordered,), (rotation,))


def _context_exchanges(training: Training, width: float) -> Passes:
    """Return what a context group exchanges: keys and values, `width` numbers per token, or all of attention."""
    degrees = training.degrees
    if degrees.context == 1:
        return Passes((), ())
    group = DeviceGroup(size=degrees.context, stride=degrees.tensor)
    size = HALF * tokens(training) * degrees.context * width
    collective, hidden = Collective.ALL_GATHER, 0.7
    if degrees.context_exchange == "all-to-all":
        model = training.model
        size = HALF * tokens(training) * degrees.context * 4 * model.heads * model.head_dim / degrees.tensor
        collective, hidden = Collective.ALL_TO_ALL, 0.0
    elif degrees.context_exchange == "all-gather":
        hidden = 0.0
    once = Exchange(
        spent=Spent.CONTEXT, module="core_attn", group=group, collective=collective, size_bytes=size,
        hidden_share=hidden,
    )  # fmt: skip
    return Passes((once,), (once, once))
