"""Bytes of activations that one microbatch keeps on a device until its backward, by tensor, and what a pass needs.

The tensors of a dense layer without biases, rotary positions and fused attention are those of
[Korthikanti et al., arXiv:2205.05198, §4]: ``s b h (10 + 24/t + 5 a s / (h t))`` bytes without sequence parallelism.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from evenflow.model import FULL, NONE
from evenflow.predict.expert_work import expert_tensor, expert_widths, routed_tokens
from evenflow.predict.held import Held, added, largest, total
from evenflow.predict.layer_parts import Addition
from evenflow.predict.layer_work import layer_passes
from evenflow.predict.parameters import dense_group, padded_vocabulary
from evenflow.predict.passes import HALF, MASK, SINGLE, tokens, with_sizes_of
from evenflow.predict.tower import TowerPart, tower_parts
from evenflow.predict.training import FORMATS, PRODUCTS, Sharding, Training
from evenflow.predict.transformer import LayerKind
from evenflow.predict.work import Operators

_ITEM = {"float8": 1.0, "float4": 0.5}
"""Bytes of a number in an input that a product in this format keeps."""
FULLEST = 1.25
"""Tokens of the device whose experts get most, in shares of an equal load: a fit to models that begin to learn."""
_SAVED_EVERY = 256
"""Tokens after which a scan from token to token keeps its state, to go through them again backwards: no state of every
token is kept. [Mamba, arXiv:2312.00752, §3.3.2]"""
_WAITING_LOSS = ("f-then-b", "gpipe", "breadth-first")
"""Schedule families in which the last stage does not run a backward right after its forward."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor that is kept from a forward until its backward."""

    name: str
    held: Held
    size_bytes: float
    module: str = ""
    """The module of `Training.recompute_modules` that drops it and computes it again."""
    between_products: bool = False
    """Whether `PRODUCTS` among those modules drops it."""
    moved_with: str = ""
    """The module of `MOVED_MODULES` whose input it is; empty: none."""
    instead_of: str = ""
    """The module in whose place it is kept, where that drops its own tensors; empty: always."""


def layer_tensors(training: Training, layer: LayerKind) -> tuple[Tensor, ...]:
    """Return what one body layer keeps of a microbatch without recomputation, its input first."""
    if layer.frozen:
        return ()
    training = with_sizes_of(training, layer)
    tensors: list[Tensor] = []
    for _time in range(training.model.repeats):
        tensors += _norm(training, "input of the next part" if tensors else "input", *_moved_norm(training, layer))
        if layer.mixes:
            tensors += [*_mixers(training, layer), *_dropout(training, "attention's dropout")]
        if layer.transforms:
            tensors += _norm(training, "input of the MLP", _moved_mlp_norm(layer)) if layer.mixes else []
            tensors += _mlp(training) if layer.mlp else []
            tensors += _dropout(training, "MLP's dropout")
    tensors += _experts(training) if layer.experts else []
    tensors += _indexer(training, layer)
    tensors += _adapters(training, layer)
    further = training.model.additions_of(layer)
    beside = HALF * _spread(training) * (training.model.given - training.model.hidden)
    if beside:
        tensors.append(Tensor("input", Held.NORMS, beside))
    return (*tensors, *(_addition(training, addition) for addition in further))


def _adapters(training: Training, layer: LayerKind) -> list[Tensor]:
    """Return the narrow results of adapters, which their second products keep."""
    if not training.model.adapter_rank:
        return []
    works = layer_passes(training, layer).forward
    narrow = sum(work.narrow for work in works if isinstance(work, Operators))
    return [Tensor("narrow results of adapters", Held.MLP, HALF * narrow)]


def _addition(training: Training, addition: Addition) -> Tensor:
    size = HALF * _spread(training) * addition.kept
    return Tensor(addition.name, Held.NORMS, size, between_products=not addition.products)


def _indexer(training: Training, layer: LayerKind) -> list[Tensor]:
    """Return what an indexer keeps: its queries, key and weights, and the places of the tokens that it chose."""
    indexer = training.model.indexer
    if not layer.indexer or indexer is None:
        return []
    numbers = HALF * ((indexer.heads + 1) * indexer.width + indexer.heads * indexer.weighed)
    places = SINGLE * min(indexer.chosen, training.sequence)
    return [Tensor("indexer, and what it chose", Held.ATTENTION, _spread(training) * (numbers + places))]


def layer_activations(training: Training, layer: LayerKind, *, kind: str) -> dict[Held, int]:
    """Return the bytes that one body layer keeps on the device under a recompute kind, by purpose."""
    moved = training.moved_under(kind)
    return _sums(tensor for tensor in _kept(training, layer, kind) if tensor.moved_with not in moved)


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
    tensors = layer_tensors(training, layer)
    training = with_sizes_of(training, layer)
    of_mlp = {Held.MLP, Held.EXPERTS}
    again = [tensor for tensor in tensors if not _is_kept(training, tensor, kind)]
    free = sum(tensor.size_bytes for tensor in tensors if tensor.held in of_mlp and tensor not in again)
    stream = 2 * HALF * _spread(training) * training.model.given + _gathered(training)
    mlp = _mlp_gradients(training, layer)
    of_mixers = (_attention_gradients(training) if layer.attention else 0) + (_state_gradients(training, layer))
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
        kept = _sums([_addition(part.training, part.part)] if part.is_trained else [])
    return added(kept, times=part.count)


def embedding_activations(training: Training) -> dict[Held, int]:
    """Return what the embedding keeps: its tokens and a dropout mask; its output counts as the first layer's input."""
    kept = [Tensor("tokens", Held.NORMS, 8 * tokens(training)), *_dropout(training, "embedding's dropout")]
    return _sums([*kept, *(_addition(training, addition) for addition in training.model.head_additions)])


def tail_activations(training: Training) -> dict[Held, int]:
    """Return what the last norm, the output layer and the loss keep.

    The logits' softmax is among them where other forwards run before its backward; else a pass works with it.
    """
    model = training.model
    before = sum(addition.kept for addition in model.tail_additions)
    normed = {Held.NORMS: round(HALF * _spread(training) * (2 * model.hidden + before))}
    block = layer_activations(training, model.further_kind, kind=training.recompute)
    further = added(
        block, joined_activations(training), {Held.LOGITS: _softmax(training)}, times=model.predicted_tokens
    )
    return added(normed, further, {Held.LOGITS: _softmax(training) if loss_waits(training) else 0})


def joined_activations(training: Training, *, kind: str = NONE) -> dict[Held, int]:
    """Return what a block that predicts a further token keeps before its layer, under a recompute kind.

    Two norms keep their inputs, and the product of both results keeps those; under full recomputation the embedded
    tokens stay, beside the input of the layer.
    """
    numbers = 1 if kind == FULL else 4
    return {Held.NORMS: round(numbers * HALF * _spread(training) * training.model.hidden)}


def further_logits(training: Training) -> dict[Held, int]:
    """Return what the losses of further tokens keep until their backwards."""
    return {Held.LOGITS: training.model.predicted_tokens * _softmax(training)}


def tail_working(training: Training) -> dict[Held, int]:
    """Return the working memory of the loss: logits in 16 bits and their softmax in 32.

    A loss that does not work in place has the gradients of the softmax and of the logits beside it, in 32 bits. A fully
    sharded output layer is whole meanwhile, where the pipeline does not keep all of them whole.
    """
    softmax = _softmax(training)
    beside = softmax * HALF // SINGLE if training.software.fused_loss else 2 * softmax
    needed = {Held.LOGITS: beside + (0 if loss_waits(training) else softmax)}
    degrees = training.degrees
    if degrees.sharding is Sharding.PARAMETERS and degrees.pipeline == 1 and dense_group(degrees).size > 1:
        own_vocabulary = padded_vocabulary(training) / training.degrees.tensor
        needed[Held.BUFFERS] = round(HALF * own_vocabulary * training.model.hidden)
    return needed


def loss_waits(training: Training) -> bool:
    """Whether other forwards run between the loss of a microbatch and its backward."""
    return training.schedule in _WAITING_LOSS


def _softmax(training: Training) -> int:
    return round(SINGLE * tokens(training) * padded_vocabulary(training) / training.degrees.tensor)


def _spread(training: Training) -> float:
    """Return a device's tokens of a microbatch where sequence parallelism splits them."""
    degrees = training.degrees
    return tokens(training) / (degrees.tensor if degrees.sequence_parallel else 1)


def _sums(tensors: Iterator[Tensor] | list[Tensor]) -> dict[Held, int]:
    result: dict[Held, float] = {}
    for tensor in tensors:
        result[tensor.held] = result.get(tensor.held, 0.0) + tensor.size_bytes
    return {held: round(size) for held, size in result.items()}


def _is_kept(training: Training, tensor: Tensor, kind: str) -> bool:
    if kind == FULL:
        return tensor.name == "input"
    dropped = training.modules_under(kind)
    if tensor.instead_of:
        return tensor.instead_of in dropped or PRODUCTS in dropped
    return tensor.module not in dropped and not (tensor.between_products and PRODUCTS in dropped)


def _saved(training: Training) -> float:
    """Return the bytes of each number that a linear layer keeps of its input."""
    return _ITEM.get(FORMATS[training.precision], HALF)


def _moved_norm(training: Training, layer: LayerKind) -> tuple[str, str]:
    """Return the modules whose inputs are those of a layer's first norm and of what follows it.

    Attention with ordinary heads has its norm inside the product that makes them, dense MLPs as well. [Megatron-LM,
    `get_gpt_layer_with_transformer_engine_spec`]
    """
    if not layer.mixes:
        return _moved_mlp_norm(layer), ""
    if not layer.attention:
        return "", ""
    return "attn_norm" if training.model.latent else "qkv_linear", "qkv_linear"


def _moved_mlp_norm(layer: LayerKind) -> str:
    return "mlp_norm" if layer.experts else ""


def _norm(training: Training, name: str, moved_with: str = "", normed_moved_with: str = "") -> list[Tensor]:
    """Return what a norm keeps: input and output; unfused also its input in 32 bits and its unscaled output.

    Without norms of its own, what a layer reads and what it makes of that in their place are kept all the same.
    """
    model = training.model
    numbers = _spread(training) * model.hidden
    normed = Tensor(
        f"normed {name}", Held.NORMS, _saved(training) * numbers, "layernorm", True, moved_with=normed_moved_with
    )
    if training.software.fused_elementwise or model.biases.norms or not model.norms.of_layer:
        return [Tensor(name, Held.NORMS, HALF * numbers, moved_with=moved_with), normed]
    single = SINGLE * (numbers + _spread(training))
    return [
        Tensor(name, Held.NORMS, HALF * numbers, instead_of="layernorm"),
        Tensor(f"{name} in 32 bits, with a factor for each token", Held.NORMS, single, "layernorm", True),
        Tensor(f"unscaled {name}", Held.NORMS, HALF * numbers, "layernorm", True),
        normed,
    ]


def _dropout(training: Training, name: str) -> list[Tensor]:
    size = MASK * _spread(training) * training.model.hidden
    return [Tensor(name, Held.NORMS, size)] if training.model.dropout else []


def _mixers(training: Training, layer: LayerKind) -> list[Tensor]:
    """Return what attention and the state mixer of a layer keep."""
    tensors = []
    if layer.attention:
        tensors += _latent_attention(training) if training.model.latent else _attention(training)
    return tensors + (_state(training) if layer.state else [])


def _state(training: Training) -> list[Tensor]:
    """Return what a state mixer keeps: what its kernels read again, and the states between chunks, in 32 bits."""
    state = training.model.states.mixer
    assert state is not None
    here = tokens(training) / training.degrees.tensor
    between = sum(wide + narrow for wide, narrow in state.between)
    states = state.heads * state.key_dim * state.value_dim / max(state.chunk, _SAVED_EVERY)
    out = Tensor("state mixer's output", Held.ATTENTION, HALF * here * state.out)
    return [
        Tensor("projected input of the state mixer", Held.ATTENTION, HALF * here * (state.into + between)),
        *([Tensor("convolved input", Held.ATTENTION, HALF * here * state.channels)] if state.channels else []),
        *([Tensor("states between chunks", Held.ATTENTION, SINGLE * here * states)] if states else []),
        *([replace(out, name="ungated output of the state mixer")] if state.key_dim else []),
        out,
    ]


def _attention(training: Training) -> list[Tensor]:
    model, degrees = training.model, training.degrees
    queries = model.heads * model.head_dim / degrees.tensor
    kv_heads = max(model.kv_heads / degrees.tensor, 1)
    keys = kv_heads * model.head_dim if model.key_products else 0
    values = kv_heads * model.value_width if model.key_products else 0
    out = model.heads * model.value_width / degrees.tensor
    here = tokens(training)
    normed = (queries if model.norms.queries else 0) + (keys if model.norms.keys else 0)
    ends = model.narrow_ends
    narrow = (ends.query_rank + ends.out_groups * ends.out_rank) / degrees.tensor if ends else 0
    unnormed = Tensor("queries and keys before their norms", Held.ATTENTION, HALF * here * normed)
    return [
        *([unnormed] if normed else []),
        *([Tensor("narrow queries and outputs", Held.ATTENTION, HALF * here * narrow)] if narrow else []),
        Tensor(
            "queries, keys and values", Held.ATTENTION, HALF * here * (queries + keys + values), moved_with="core_attn"
        ),
        *_core(training, out),
        *_attention_experts(training),
        *([Tensor("gate and gated output", Held.ATTENTION, 2 * HALF * here * out)] if model.output_gate else []),
    ]


def _attention_experts(training: Training) -> list[Tensor]:
    """Return what experts of attention keep: a router's scores, and the tokens that they read before and behind it."""
    model, experts = training.model, training.model.experts
    if not model.attention_experts or experts is None:
        return []
    spread = tokens(training) / training.degrees.tensor
    read = model.hidden + expert_widths(training)[1] * expert_tensor(training)
    return [
        Tensor("router of attention", Held.ATTENTION, (2 * SINGLE + MASK) * spread * experts.scores),
        Tensor("tokens of the experts of attention", Held.ATTENTION, _saved(training) * _routed(training) * read),
    ]


def _routed(training: Training) -> float:
    """Return the tokens that the experts of the device with most of them get."""
    experts = training.model.experts
    assert experts is not None
    is_bounded = experts.bounded_load(training.degrees.expert) is not None
    return routed_tokens(training) * (1.0 if is_bounded else FULLEST)


def _latent_attention(training: Training) -> list[Tensor]:
    model, latent = training.model, training.model.latent
    assert latent is not None
    here, spread = tokens(training), _spread(training)
    heads = model.heads / training.degrees.tensor
    width = latent.plain_dim + latent.rotary_dim
    gated = 2 * HALF * here * heads * latent.value_dim
    has_gate = model.output_gate or latent.gate_of_queries
    narrow = latent.query_rank + latent.queried
    narrow += 2 * latent.key_value_rank + latent.rotary_dim if model.key_products else 0
    return [
        Tensor("narrow queries, keys and values", Held.ATTENTION, HALF * spread * narrow, moved_with="qkv_linear"),
        Tensor(
            "queries, keys and values", Held.ATTENTION, HALF * here * heads * (2 * width + latent.value_dim),
            "mla_up_proj", moved_with="core_attn",
        ),
        *_core(training, heads * latent.value_dim),
        *([Tensor("gate and gated output", Held.ATTENTION, gated)] if has_gate else []),
    ]  # fmt: skip


def _core(training: Training, width: float) -> list[Tensor]:
    """Return what the attention core keeps; its output has `width` numbers per token."""
    model, here = training.model, tokens(training)
    heads = model.heads / training.degrees.tensor
    out = Tensor("attention's output", Held.ATTENTION, HALF * here * width, moved_with="attn_proj")
    if training.software.fused_attention:
        copy = replace(out, name="attention's output in its own order")
        copies = [copy] if training.software.transposes_attention else []
        return [out, *copies, Tensor("attention's sums", Held.ATTENTION, SINGLE * here * heads)]
    scores = heads * here * training.sequence
    # After the softmax; with dropout also its mask, and what it lets through.
    size = HALF * scores + ((MASK + HALF) * scores if model.dropout else 0)
    return [Tensor("attention's scores", Held.ATTENTION, size, "core_attn"), out]


def _inside(training: Training, layer: LayerKind) -> list[Tensor]:
    """Return what the inside of a layer's MLP or experts keeps."""
    return [*(_mlp(training) if layer.mlp else []), *(_experts(training) if layer.experts else [])]


def _mlp(training: Training) -> list[Tensor]:
    return _inner(training, tokens(training), training.model.ffn / training.degrees.tensor, "mlp")


def _inner(training: Training, rows: float, width: float, module: str) -> list[Tensor]:
    """Return what the inside of an MLP keeps: inputs and output of its activation function."""
    held = Held.MLP if module == "mlp" else Held.EXPERTS
    size = HALF * rows * width
    factor = [Tensor(f"factor of the activation, {module}", held, size, module, between_products=True)]
    if not training.software.fused_elementwise:
        factor.append(Tensor(f"activation without its factor, {module}", held, size, module, between_products=True))
    return [
        Tensor(f"input of the activation, {module}", held, size, module),
        *(factor if training.model.gated else []),
        Tensor(f"output of the activation, {module}", held, _saved(training) * rows * width, module, True),
    ]


def _experts(training: Training) -> list[Tensor]:
    model, degrees, experts = training.model, training.degrees, training.model.experts
    assert experts is not None
    split, spread = expert_tensor(training), tokens(training) / degrees.tensor
    routed = _routed(training)
    inner = _inner(training, routed, experts.ffn / split, "moe")
    # The router's weights are multiplied in behind the activation; fused gated activations do both at once.
    unweighed = Tensor("unweighed output, moe", Held.EXPERTS, HALF * routed * experts.ffn / split, "moe")
    shared = _inner(training, tokens(training), experts.shared_ffn / degrees.tensor, "shared_experts")
    return [
        Tensor("router", Held.EXPERTS, (2 * SINGLE + MASK) * spread * experts.scores, "moe"),
        Tensor(
            "tokens of the experts",
            Held.EXPERTS,
            _saved(training) * routed * (experts.width or model.hidden),
            "moe",
            moved_with="expert_fc1",
        ),
        *(replace(tensor, moved_with="moe_act") for tensor in inner[:-1]),
        *([] if model.gated else [unweighed]),
        replace(inner[-1], module="moe_act"),
        *(shared if experts.shared_ffn else []),
    ]


def _attention_gradients(training: Training) -> float:
    """Return the bytes of gradients that attention's backward holds at once: of its scores, or of its inputs."""
    model, degrees = training.model, training.degrees
    here = tokens(training)
    if training.software.fused_attention:
        return HALF * here * model.head_dim * (2 * model.heads + 2 * model.kv_heads) / degrees.tensor
    # Of the softmax and of what it takes; behind a dropout, what it let through is free again before the second.
    return (1 if model.dropout else 2) * HALF * model.heads / degrees.tensor * here * training.sequence


def _state_gradients(training: Training, layer: LayerKind) -> float:
    """Return the bytes of gradients that a state mixer's backward holds at once: of what its kernels read."""
    state = training.model.states.mixer
    if not layer.state or state is None:
        return 0.0
    return HALF * tokens(training) / training.degrees.tensor * (state.into + state.channels)


def _mlp_gradients(training: Training, layer: LayerKind) -> Tensor:
    """Return the gradients of an MLP's activation inputs; the gradient of its output reuses the output's memory."""
    inside = _inside(training, layer)
    taken = [tensor for tensor in inside if tensor.name.startswith(("input of the activation", "factor of"))]
    held = Held.EXPERTS if layer.experts else Held.MLP
    return Tensor("gradients of the MLP", held, sum(tensor.size_bytes for tensor in taken))


def _gathered(training: Training) -> float:
    """Return the bytes of a block's input, which sequence parallelism gathers anew for each pass."""
    degrees = training.degrees
    split = degrees.sequence_parallel and degrees.tensor > 1
    return HALF * tokens(training) * training.model.hidden if split else 0.0


def boundary_bytes(training: Training) -> int:
    """Return the bytes of the longest message between two stages."""
    widest = max(with_sizes_of(training, kind).model.message_width for kind in set(training.model.kinds))
    return round(HALF * _spread(training) * widest)
