"""The operators and exchanges of one body layer, forward and backward, on one device for one microbatch."""

from dataclasses import dataclass, replace

from evenflow.cluster import Collective
from evenflow.cluster.topology import DeviceGroup
from evenflow.predict.layer_parts import Addition, Indexer, NarrowEnds
from evenflow.predict.training import FORMATS, QUERY_NORMS, Training
from evenflow.predict.transformer import LayerKind, StateMixer, Transformer
from evenflow.predict.work import UNDER_PRODUCTS, Exchange, Operators, Spent, Work, elementwise, gradients, product

HALF = 2
"""Bytes of a number in activations."""
SINGLE = 4
"""Bytes of a number in 32 bits: in the loss, the router, the optimizer."""
MASK = 1
"""Bytes of a number in a dropout mask."""
ADAPTERS = "adapters"
"""The sub-module of adapters beside products."""
_ROUTING_CALLS = 16
"""Operators that route tokens to experts and back: scores and their choice, the map and the counts of tokens, the loss
of the load, permuting, sorting; and the same backward."""


@dataclass(frozen=True, slots=True)
class Passes:
    """What a layer does in one microbatch."""

    forward: tuple[Work, ...]
    backward: tuple[Work, ...]

    def __add__(self, other: "Passes") -> "Passes":
        return Passes(self.forward + other.forward, self.backward + other.backward)


def layer_passes(training: Training, kind: LayerKind) -> Passes:
    """Return the passes of one body layer."""
    training = with_sizes_of(training, kind)
    model = training.model
    passes = _norms(training, model.norms_of(kind), sums=kind.mixes + kind.transforms)
    seen = _seen_tokens(training, kind)
    if kind.attention:
        passes += _latent_attention(training, seen) if model.latent else _attention(training, seen)
    if kind.state and model.states.mixer is not None:
        passes += _state(training, model.states.mixer)
    if kind.mlp:
        passes += _mlp(training, model.ffn, module="mlp")
    passes = Passes(passes.forward * model.repeats, passes.backward * model.repeats)
    if kind.indexer and model.indexer is not None:
        passes += _indexer(training, model.indexer)
    for addition in model.additions_of(kind):
        passes += addition_passes(training, addition)
    passes = passes + _experts(training) if kind.experts else passes
    return Passes(passes.forward, ()) if kind.frozen else passes


def with_sizes_of(training: Training, kind: LayerKind) -> Training:
    """Return the training of the model with the sizes of a layer of this kind."""
    return training if kind.own is None else replace(training, model=training.model.with_sizes_of(kind))


def key_numbers(model: Transformer) -> int:
    """Return the numbers of a token that the products for keys and values give."""
    if model.key_products < 2:
        return model.key_products * model.kv_heads * model.head_dim
    return model.kv_heads * (model.head_dim + model.value_width)


def addition_passes(training: Training, addition: Addition) -> Passes:
    """Return the work of a further part, which tensor parallelism does not split but by tokens; it has parts of tables.

    What devices look up in their parts of a table is summed over them, as with the embedding.
    """
    here = _spread_tokens(training)
    passes = Passes((), ())
    for wide, narrow in addition.products:
        passes += _linear(training, here, narrow, wide, addition.name)
    for wide, narrow, parts in addition.repeated:
        passes += _linear(training, here * parts, narrow, wide, addition.name)
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
    chosen = 2.0 * model.indexer.chosen if kind.indexed and model.indexer is not None else seen
    if kind.window and model.window:
        within = min(seen, 2.0 * model.window)
        return min(seen, within + min(chosen, seen / model.together)) if model.together > 1 else within
    return min(seen, chosen)


def _indexer(training: Training, indexer: Indexer) -> Passes:
    """Return the work of choosing tokens: products, and scores of all tokens before each. [arXiv:2512.02556, §2.1]

    Its gradients come from a loss of its own and end in its products.
    """
    model, here = training.model, _spread_tokens(training)
    passes = Passes((), ())
    for wide, narrow in indexer.products(model.hidden, model.query_rank):
        passes += _linear(training, here, narrow, wide, "indexer")
    share = 0.5 if training.software.skips_masked else 1.0
    scored = here * training.sequence / indexer.per_tokens * share

    def scores(times: float) -> Operators:
        return Operators(
            spent=Spent.ATTENTION, module="indexer", flops=2 * scored * indexer.heads * indexer.width * times,
            moved_bytes=HALF * (here * (indexer.heads + 1) * indexer.width + scored) * times,
            dtype=training.wide_format, depth=indexer.width, calls=2,
        )  # fmt: skip

    return passes + Passes((scores(1.0),), (scores(2.0),))


def sum_over_tensor(training: Training, size_bytes: float, module: str) -> Exchange:
    """Return the sum of a tensor over the devices of a tensor group, after which all of them have it."""
    return Exchange(
        spent=Spent.TENSOR, module=module, group=DeviceGroup(size=training.degrees.tensor),
        collective=Collective.ALL_REDUCE, size_bytes=size_bytes,
    )  # fmt: skip


def tokens(training: Training) -> float:
    """Return a device's tokens of a microbatch where sequence parallelism does not split them."""
    return training.microbatch * training.sequence / training.degrees.context


def message_bytes(training: Training) -> int:
    """Return the bytes of what a stage sends on, before the devices of a tensor group share it out.

    It is what a layer of the model's own sizes gives, the least of all layers (`own_message_bytes`): bounds count it.
    """
    return round(HALF * tokens(training) * training.model.message_width)


def own_message_bytes(training: Training, kind: LayerKind) -> int | None:
    """Return the same behind a layer that gives more than one of the model's own sizes; None: it does not."""
    size = message_bytes(with_sizes_of(training, kind))
    return None if size == message_bytes(training) else size


def _spread_tokens(training: Training) -> float:
    """Return a device's tokens of a microbatch where sequence parallelism splits them."""
    degrees = training.degrees
    return tokens(training) / (degrees.tensor if degrees.sequence_parallel else 1)


def _norms(training: Training, norms: int, *, sums: int) -> Passes:
    """Return the work of a layer's norms and residual sums, with dropout where the model has it."""
    model, fused = training.model, training.software.fused_elementwise
    numbers = _spread_tokens(training) * model.hidden
    passed, mask = HALF * numbers, (numbers * MASK if model.dropout else 0.0)
    if fused:
        forward, backward = (3 * passed + mask, 1), (2 * passed + mask, 1)
    elif model.gated:  # an addition, of the residual as of the gradients that meet there; dropout by itself
        dropped, calls = (2 * passed + mask, 2) if mask else (0.0, 1)
        forward = backward = (3 * passed + dropped, calls)
    else:
        forward, backward = (6 * passed + mask, 2), (8 * passed + mask, 3)
    once, again = (elementwise(sums * moved, sums * calls, "residual") for moved, calls in (forward, backward))
    return _norm(training, numbers, norms) + Passes((once,), (again,))


_ONE_KERNEL, _EAGER, _EAGER_IN_SINGLE = ((2, 1), (4, 2)), ((7, 3), (10, 3)), ((18, 8), (46, 16))
"""Times that a norm reads or writes the bytes of its input, and its operators, forward and backward. The last is that
of gated models: to 32 bits, squared, averaged, the inverse root, multiplied, to 16 bits, weighed."""


def _norm(training: Training, numbers: float, count: int, module: str = "layernorm") -> Passes:
    """Return the work of `count` norms over `numbers` values each."""
    eager = _EAGER_IN_SINGLE if training.model.gated else _EAGER
    passes = _ONE_KERNEL if training.software.fused_elementwise else eager
    once, again = (elementwise(times * HALF * numbers * count, n * count, module) for times, n in passes)
    return Passes((once,), (again,))


def _linear(
    training: Training, rows: float, columns: float, depth: float, module: str, count: float = 1, *,
    is_router: bool = False,
) -> Passes:  # fmt: skip
    """Return the work of `count` equal products; a router has no adapters."""
    dtype = FORMATS[training.precision]
    forward: list[Work] = [product(rows, columns, depth, dtype=dtype, module=module, count=count)]
    backward = gradients(rows, columns, depth, dtype=dtype, module=module, count=count)
    if dtype in ("float8", "float4"):  # inputs and gradients are cast, and their scales found
        forward.append(elementwise(1.5 * HALF * rows * depth * count, 1, module))
        backward.append(elementwise(2.0 * HALF * rows * columns * count, 1, module))
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


def _tensor_exchanges(training: Training, module: str) -> Passes:
    """Return the tensor-parallel exchanges of one block (attention or MLP). [arXiv:2205.05198, §4.2]"""
    degrees, software = training.degrees, training.software
    if degrees.tensor == 1:
        return Passes((), ())
    size = HALF * tokens(training) * training.model.hidden
    hidden = UNDER_PRODUCTS if software.overlaps_tensor else 0.0

    def exchange(collective: Collective, share: float = hidden) -> Exchange:
        return Exchange(
            spent=Spent.TENSOR, module=module, group=DeviceGroup(size=degrees.tensor), collective=collective,
            size_bytes=size, hidden_share=share,
        )  # fmt: skip

    if degrees.sequence_parallel:
        both = (exchange(Collective.ALL_GATHER), exchange(Collective.REDUCE_SCATTER))
        again = exchange(Collective.ALL_GATHER, 0.9)  # the input for the weight gradient, under the input gradient
        return Passes(both, (*both, again))
    return Passes((exchange(Collective.ALL_REDUCE),), (exchange(Collective.ALL_REDUCE),))


def _attention(training: Training, seen: float) -> Passes:
    model, degrees = training.model, training.degrees
    here = tokens(training)
    queries = model.heads * model.head_dim / degrees.tensor
    kv_heads = max(model.kv_heads / degrees.tensor, 1)
    keys = kv_heads * model.head_dim if model.key_products else 0
    out = model.heads * model.value_width / degrees.tensor
    passes = _tensor_exchanges(training, "attention")
    width = key_numbers(model) + (0 if model.attention_experts else model.heads * model.head_dim)
    width += model.heads * model.value_width if model.output_gate else 0
    narrow = model.narrow_ends
    if narrow is None:
        passes += _linear(training, here, width / degrees.tensor, model.hidden, "qkv")
    else:
        passes += _linear(training, here, key_numbers(model), model.hidden, "qkv")
        passes += _narrow_ends(training, narrow)
    if model.kv_heads < degrees.tensor:
        passes += _split_heads(training, width)
    passes += _norm(training, here * queries, bool(model.norms.queries), QUERY_NORMS)
    passes += _norm(training, here * keys, bool(model.norms.keys), QUERY_NORMS)
    passes += _rotary(training, here * (queries + keys))
    passes += _core(training, queries, out, seen=seen)
    passes += _context_exchanges(training, kv_heads * (model.head_dim + model.value_width))
    if model.output_gate:
        passes += _gate(here * out, "core_attn")
    if model.attention_experts:
        return passes + _attention_experts(training)
    return passes if narrow else passes + _linear(training, here, model.hidden, out, "out")


def expert_widths(training: Training) -> tuple[float, float]:
    """Return the numbers of queries that an expert of attention gives on a device, and those that it reads after."""
    model, experts = training.model, training.model.experts
    assert experts is not None
    parts = experts.active * expert_tensor(training)
    return model.heads * model.head_dim / parts, model.heads * model.value_width / parts


def _attention_experts(training: Training) -> Passes:
    """Return the work of the experts before and behind attention: a router, tokens there and back twice, products."""
    model, degrees, experts = training.model, training.degrees, training.model.experts
    assert experts is not None
    own_experts, routed, split = experts.count / degrees.expert, routed_tokens(training), expert_tensor(training)
    rows, (queried, read) = routed / own_experts, expert_widths(training)
    passed = HALF * routed * (2 * model.hidden + (queried + read) * split)
    passes = _linear(training, tokens(training) / degrees.tensor, experts.count, model.hidden, "qkv", is_router=True)
    passes += Passes(
        (elementwise(2 * passed, _ROUTING_CALLS, "qkv"),), (elementwise(2.5 * passed, _ROUTING_CALLS, "qkv"),)
    )
    if exchanges_tokens(training):
        for numbers in (model.hidden, queried * split, read * split, model.hidden):
            exchange = _sent_tokens(training, HALF * routed * numbers, "qkv")
            passes += Passes((exchange,), (exchange,))
    passes += _linear(training, rows, queried, model.hidden, "qkv", own_experts)
    return passes + _linear(training, rows, model.hidden, read, "out", own_experts)


def _narrow_ends(training: Training, narrow: NarrowEnds) -> Passes:
    """Return the work of narrow products at both ends of attention; wide ends are shared out over tensor groups."""
    model, split, passes = training.model, training.degrees.tensor, Passes((), ())
    wide = model.heads * model.head_dim, model.heads * model.value_width
    for read, given, count in narrow.products(model.hidden, *wide):
        passes += _linear(training, tokens(training) / split, given, read, "qkv", count)
    return passes


def _gate(numbers: float, module: str) -> Passes:
    """Return the work of weighing `numbers` values by a sigmoid of as many others."""
    return Passes((elementwise(3 * HALF * numbers, 2, module),), (elementwise(5 * HALF * numbers, 3, module),))


def _state(training: Training, state: StateMixer) -> Passes:
    """Return the work of a state mixer: projections, convolution, the state, a gate, the projection out."""
    degrees, hidden = training.degrees, training.model.hidden
    here = tokens(training)
    split = 1 / degrees.tensor
    passes = _tensor_exchanges(training, "state")
    passes += _linear(training, here, state.into * split, hidden, "state")
    if state.channels:
        moved = 2 * HALF * here * state.channels * split
        passes += Passes((elementwise(moved, 1, "state"),), (elementwise(2 * moved, 2, "state"),))
    for wide, narrow in state.between:
        passes += _linear(training, here, narrow, wide * split, "state")
    if state.key_dim:
        passes += _scan(training, state)
        passes += _gate(here * state.out * split, "state")
    if degrees.context > 1:
        passes += _state_exchanges(training, state)
    return passes + _linear(training, here, hidden, state.out * split, "state")


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
    if training.model.positions:
        return Passes((), ())
    fused = training.software.fused_elementwise
    passes = ((2, 1), (2, 1)) if fused else ((10, 10), (16, 16))  # eager: halves swapped, two products, their sum
    once, again = (elementwise(times * HALF * numbers, calls, "rotary") for times, calls in passes)
    return Passes((once,), (again,))


def _latent_attention(training: Training, seen: float) -> Passes:
    model, degrees, latent = training.model, training.degrees, training.model.latent
    assert latent is not None
    here, spread = tokens(training), _spread_tokens(training)
    heads = model.heads / degrees.tensor
    width = latent.plain_dim + latent.rotary_dim
    passes = _tensor_exchanges(training, "attention")
    if latent.query_rank:
        passes += _linear(training, spread, latent.query_rank, model.hidden, "qkv")
        passes += _linear(training, here, heads * (width + latent.gate_dim), latent.queried, "mla_up_proj")
    else:
        passes += _linear(training, here, heads * width, model.hidden, "qkv")
    if model.key_products:
        passes += _linear(training, spread, latent.key_value_rank + latent.rotary_dim, model.hidden, "qkv")
    passes += _linear(
        training, here, heads * (latent.plain_dim + latent.value_dim), latent.key_value_rank, "mla_up_proj"
    )
    if latent.rotary_dim:
        passes += _rotary(training, here * (2 if model.key_products else 1) * heads * width)
    passes += _core(training, heads * width, heads * latent.value_dim, seen=seen)
    passes += _context_exchanges(training, heads * (width + latent.value_dim))
    if model.output_gate:
        passes += _linear(training, here, heads * latent.value_dim, model.hidden, "qkv")
    if model.output_gate or latent.gate_of_queries:
        passes += _gate(here * heads * latent.value_dim, "core_attn")
    return passes + _linear(training, here, model.hidden, heads * latent.value_dim, "out")


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


def _mlp(training: Training, width: float, *, module: str) -> Passes:
    model, degrees = training.model, training.degrees
    here, own = tokens(training), width / degrees.tensor
    inner = (2 if model.gated else 1) * own
    passes = _tensor_exchanges(training, module)
    passes += _linear(training, here, inner, model.hidden, module)
    passes += _activation(training, here * inner, here * own, module)
    return passes + _linear(training, here, model.hidden, own, module)


def _activation(training: Training, read: float, written: float, module: str) -> Passes:
    if training.model.gated and not training.software.fused_elementwise:  # the activation, and the product
        size = HALF * written
        return Passes((elementwise(5 * size, 2, module),), (elementwise(9 * size, 3, module),))
    calls, times = (1, 1.0) if training.software.fused_elementwise else (3, 2.5)
    forward = elementwise(times * HALF * (read + written), calls, module)
    backward = elementwise(times * HALF * (2 * read + written), calls, module)
    return Passes((forward,), (backward,))


def _experts(training: Training) -> Passes:
    model, degrees, experts = training.model, training.degrees, training.model.experts
    assert experts is not None
    split = expert_tensor(training)
    own_experts, routed = experts.count / degrees.expert, routed_tokens(training)
    width, hidden = experts.ffn / split, experts.width or model.hidden
    inner = (2 if model.gated else 1) * width
    rows = routed / own_experts
    passed = HALF * routed * hidden
    scores = experts.scores
    passes = _linear(
        training, tokens(training) / degrees.tensor, scores, experts.router_width or model.hidden, "moe", is_router=True
    )
    passes += Passes(
        (elementwise(4 * passed, _ROUTING_CALLS, "moe"),), (elementwise(5 * passed, _ROUTING_CALLS, "moe"),)
    )
    if exchanges_tokens(training):
        exchange = _sent_tokens(training, passed, "moe")
        passes += Passes((exchange, exchange), (exchange, exchange))
    if experts.width:
        for ends in (model.hidden, hidden), (hidden, model.hidden):
            passes += _linear(training, tokens(training) / degrees.tensor, *ends, "moe")
    passes += _linear(training, rows, inner, hidden, "moe", own_experts)
    passes += _activation(training, routed * inner, routed * width, "moe_act")
    passes += _linear(training, rows, hidden, width, "moe", own_experts)
    if experts.shared_ffn:
        passes += _mlp(training, experts.shared_ffn, module="shared_experts")
    return passes


def routed_tokens(training: Training) -> float:
    """Return the tokens that a device's experts get, with equal loads, or the largest that they may be."""
    degrees, experts = training.degrees, training.model.experts
    assert experts is not None
    equal = tokens(training) / degrees.tensor * experts.computed * expert_tensor(training)
    return equal * (experts.bounded_load(degrees.expert) or 1.0)


def _sent_tokens(training: Training, passed: float, module: str) -> Exchange:
    """Return the exchange that sends a device's tokens to their experts, or back: `passed` bytes."""
    split, software, experts = expert_tensor(training), training.software, training.model.experts
    assert experts is not None
    group = DeviceGroup(size=training.degrees.expert * split)
    return Exchange(
        spent=Spent.EXPERT, module=module, group=group, collective=Collective.ALL_TO_ALL,
        size_bytes=passed * group.size / split, hidden_share=0.8 if software.overlaps_experts else 0.0,
        copies=experts.active if software.sends_tokens_once else 0,
    )  # fmt: skip


def exchanges_tokens(training: Training) -> bool:
    """Return whether devices exchange tokens between experts, in a layer that is trained."""
    return training.model.experts is not None and training.degrees.expert * expert_tensor(training) > 1


def expert_tensor(training: Training) -> int:
    """Return over how many devices an expert's matrices are split."""
    degrees = training.degrees
    if degrees.expert_tensor is not None:
        return degrees.expert_tensor
    return 1 if degrees.expert > 1 else degrees.tensor
