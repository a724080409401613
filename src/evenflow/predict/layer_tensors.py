"""The tensors that a body layer keeps of one microbatch from its forward until its backward.

The tensors of a dense layer without biases, rotary positions and fused attention are those of
[Korthikanti et al., arXiv:2205.05198, §4]: ``s b h (10 + 24/t + 5 a s / (h t))`` bytes without sequence parallelism.
"""

from dataclasses import dataclass, replace

from evenflow.predict.attention_work import key_numbers
from evenflow.predict.expert_work import expert_tensor, expert_widths, routed_tokens
from evenflow.predict.held import Held
from evenflow.predict.layer_parts import Addition, PatchAttention
from evenflow.predict.layer_work import layer_passes
from evenflow.predict.passes import (
    HALF,
    MASK,
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
from evenflow.predict.training import FORMATS, FULL_ATTENTION, PRODUCTS, Training
from evenflow.predict.transformer import DENSE, LayerKind
from evenflow.predict.work import Operators

_ITEM = {"float8": 1.0, "float4": 0.5}
"""Bytes of a number in an input that a product in this format keeps."""
HASHES = "hashes"
"""The tensor that a layer keeps whose inputs are computed again from its outputs: new ones would be others."""
ROUTER, SENT, SHARED = "router", "tokens of the experts", "shared_experts"
"""The tensors that a router keeps, and that were sent to routed experts; the module of experts for all tokens."""
_INSIDE = "input of the MLP"
_PLACE = 8
"""Bytes of a hash."""
FULLEST = 1.25
"""Tokens of the device whose experts get most, in shares of an equal load: a fit to models that begin to learn."""
_SAVED_EVERY = 256
"""Tokens after which a scan from token to token keeps its state, to go through them again backwards: no state of every
token is kept. [Mamba, arXiv:2312.00752, §3.3.2]"""


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
    """Return what one body layer keeps of a microbatch without recomputation, its input first, for each of its passes.

    The block that it shares with others is its first part.
    """
    if layer.frozen:
        return ()
    once, later = pass_tensors(training, layer)
    return once * layer.passes + later * (layer.passes - 1)


def pass_tensors(training: Training, layer: LayerKind) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
    """Return what one pass through a body layer keeps, its input first, and what a later pass keeps beside that."""
    block = shared_training(training) if layer.shared else None
    first: tuple[Tensor, ...] = ()
    if block is not None:
        beside = Tensor("input", Held.NORMS, HALF * spread_tokens(training) * training.model.carried)
        first = (*layer_tensors(block, DENSE), beside)
    training = with_sizes_of(training, layer)
    further = training.model.additions_of(layer)
    own = _own_tensors(training, layer.own_pass, name="input of the next part" if first else "input")
    own += [addition_tensor(training, addition) for addition in further if not addition.after_first]
    return (*first, *own), tuple(addition_tensor(training, addition) for addition in further if addition.after_first)


def _own_tensors(training: Training, layer: LayerKind, *, name: str) -> list[Tensor]:
    """Return what a pass through a layer of the model's own sizes keeps, its input first, under this name."""
    tensors: list[Tensor] = []
    for _time in range(training.model.repeats):
        tensors += _norm(training, "input of the next part" if tensors else name, *_moved_norm(training, layer))
        if layer.mixes:
            tensors += [*_mixers(training, layer), *dropout_tensors(training, "attention's dropout")]
        if layer.transforms:
            tensors += _norm(training, _INSIDE, _moved_mlp_norm(layer)) if layer.mixes else []
            tensors += _mlp(training) if layer.mlp else []
            tensors += _last_product(training) if layer.mlp else []
            tensors += dropout_tensors(training, "MLP's dropout")
    tensors += _experts(training) if layer.experts else []
    tensors += _indexer(training, layer)
    tensors += _adapters(training, layer)
    beside = HALF * spread_tokens(training) * (training.model.given - training.model.hidden)
    if beside:
        tensors.append(Tensor("input", Held.NORMS, beside))
    return tensors


def _adapters(training: Training, layer: LayerKind) -> list[Tensor]:
    """Return the narrow results of adapters, which their second products keep."""
    if not training.model.adapter_rank:
        return []
    works = layer_passes(training, layer).forward
    narrow = sum(work.narrow for work in works if isinstance(work, Operators))
    return [Tensor("narrow results of adapters", Held.MLP, HALF * narrow)]


def addition_tensor(training: Training, addition: Addition) -> Tensor:
    """Return what a further part keeps."""
    size = HALF * spread_tokens(training) * addition.kept
    return Tensor(addition.name, Held.NORMS, size, between_products=not addition.products)


def _indexer(training: Training, layer: LayerKind) -> list[Tensor]:
    """Return what an indexer keeps: its queries, key and weights, and the places of the tokens that it chose."""
    indexer = training.model.indexer
    if not layer.indexer or indexer is None:
        return []
    numbers = HALF * ((indexer.heads + 1) * indexer.width + indexer.heads * indexer.weighed)
    places = SINGLE * min(indexer.chosen, training.sequence)
    return [Tensor("indexer, and what it chose", Held.ATTENTION, spread_tokens(training) * (numbers + places))]


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
    numbers = spread_tokens(training) * model.hidden
    normed = Tensor(
        f"normed {name}", Held.NORMS, _saved(training) * numbers, "layernorm", True, moved_with=normed_moved_with
    )
    is_inside = name == _INSIDE  # behind a second product, which `PRODUCTS` computes again
    if training.software.fused_elementwise or model.biases.norms or not model.norms.of_layer:
        return [Tensor(name, Held.NORMS, HALF * numbers, between_products=is_inside, moved_with=moved_with), normed]
    single = SINGLE * (numbers + spread_tokens(training))
    return [
        Tensor(name, Held.NORMS, HALF * numbers, between_products=is_inside, instead_of="layernorm"),
        Tensor(f"{name} in 32 bits, with a factor for each token", Held.NORMS, single, "layernorm", True),
        Tensor(f"unscaled {name}", Held.NORMS, HALF * numbers, "layernorm", True),
        normed,
    ]


def dropout_tensors(training: Training, name: str) -> list[Tensor]:
    """Return the mask of a dropout over the hidden size; nothing in a model without."""
    size = MASK * spread_tokens(training) * training.model.hidden
    return [Tensor(name, Held.NORMS, size)] if training.model.dropout else []


def _mixers(training: Training, layer: LayerKind) -> list[Tensor]:
    """Return what attention and the state mixer of a layer keep."""
    tensors = []
    if layer.sees_images:
        return _image_attention(training)
    if layer.attention:
        tensors += _latent_attention(training) if training.model.latent else _attention(training)
    if training.model.crossing is not None:
        tensors += _patch_attention(training, training.model.crossing)
    return tensors + (_state(training) if layer.state else [])


def _patch_attention(training: Training, crossing: PatchAttention) -> list[Tensor]:
    """Return what attention between tokens and patches keeps: what it norms, queries, keys, values, and its output.

    Patches that come from an earlier layer are counted for each layer that sees them, which those of a stage share: an
    upper bound.
    """
    model, tensor = training.model, training.degrees.tensor
    asking, seen = crossing_sides(training, crossing)
    width = model.heads * model.head_dim / tensor
    both = HALF * model.hidden * (spread_tokens(asking) + spread_tokens(seen))
    parts = seen if crossing.from_tokens else asking
    of_patches = HALF * tokens(parts) * model.hidden
    return [
        *([Tensor("input", Held.ATTENTION, of_patches)] if crossing.from_tokens else []),
        _of_attention("tokens and patches before their norms", both - (of_patches if crossing.from_tokens else 0)),
        _of_attention("normed tokens and patches", both),
        *([_of_attention("patches", of_patches / crossing.parts)] if crossing.projected else []),
        _of_attention(
            "queries, keys and values", HALF * (tokens(asking) * width + tokens(seen) * key_numbers(model) / tensor)
        ),
        *_core(asking, width, seen=seen.sequence),
    ]


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
    unnormed = _of_attention("queries and keys before their norms", HALF * here * normed)
    return [
        *([unnormed] if normed else []),
        *([_of_attention("narrow queries and outputs", HALF * here * narrow)] if narrow else []),
        _of_attention("queries and values", HALF * here * (queries + values), "core_attn"),
        replace(_of_attention("keys", HALF * here * keys, "core_attn"), between_products=True),
        *_hashed(training, queries),
        *_core(training, out),
        *_attention_experts(training),
        *([_of_attention("gate and gated output", 2 * HALF * here * out)] if model.output_gate else []),
    ]


def _hashed(training: Training, queries: float) -> list[Tensor]:
    """Return what hashing keeps: where tokens go in every round, and vectors in these orders."""
    chunked, here = training.model.chunked, tokens(training)
    rounds = 0 if chunked is None else chunked.rounds(training.sequence)
    if not rounds:
        return []
    heads = queries / training.model.head_dim
    return [
        Tensor(HASHES, Held.ATTENTION, _PLACE * here * heads * rounds),
        _of_attention("queries and values in the order of hashes", 2 * HALF * here * queries * rounds),
    ]


def _of_attention(name: str, size: float, moved_with: str = "") -> Tensor:
    """Return a tensor inside attention, which `FULL_ATTENTION` drops."""
    return Tensor(name, Held.ATTENTION, size, FULL_ATTENTION, moved_with=moved_with)


def _image_attention(training: Training) -> list[Tensor]:
    """Return what attention to images keeps: queries of the sequence, keys and values of images, and their tokens.

    These tokens are counted for each such layer, where those of a stage share them: an upper bound.
    """
    model, tensor = training.model, training.degrees.tensor
    here, seen = tokens(training), image_tokens(training)
    queries = here * model.heads * model.head_dim / tensor
    keys, values = (seen * model.kv_heads * width / tensor for width in (model.head_dim, model.value_width))
    normed = (queries if model.norms.queries else 0) + (keys if model.norms.keys else 0)
    unnormed = _of_attention("queries and keys before their norms", HALF * normed)
    return [
        Tensor("input", Held.ATTENTION, image_bytes(training)),
        *([unnormed] if normed else []),
        _of_attention("queries, keys and values", HALF * (queries + keys + values), "core_attn"),
        *_core(training, model.heads * model.value_width / tensor, seen=model.image_tokens),
    ]


def _attention_experts(training: Training) -> list[Tensor]:
    """Return what experts of attention keep: a router's scores, and the tokens that they read before and behind it."""
    model, experts = training.model, training.model.experts
    if not model.attention_experts or experts is None:
        return []
    spread = tokens(training) / training.degrees.tensor
    read = model.hidden + expert_widths(training)[1] * expert_tensor(training)
    return [
        _of_attention("router of attention", (2 * SINGLE + MASK) * spread * experts.scores),
        _of_attention("tokens of the experts of attention", _saved(training) * _routed(training) * read),
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
    here, spread = tokens(training), spread_tokens(training)
    heads = model.heads / training.degrees.tensor
    width = latent.plain_dim + latent.rotary_dim
    gated = 2 * HALF * here * heads * latent.value_dim
    has_gate = model.output_gate or latent.gate_of_queries
    narrow = latent.query_rank + latent.queried
    narrow += 2 * latent.key_value_rank + latent.rotary_dim if model.key_products else 0
    return [
        _of_attention("narrow queries, keys and values", HALF * spread * narrow, "qkv_linear"),
        Tensor(
            "queries, keys and values", Held.ATTENTION, HALF * here * heads * (2 * width + latent.value_dim),
            "mla_up_proj", moved_with="core_attn",
        ),
        *_core(training, heads * latent.value_dim),
        *([_of_attention("gate and gated output", gated)] if has_gate else []),
    ]  # fmt: skip


def _core(training: Training, width: float, *, seen: int | None = None) -> list[Tensor]:
    """Return what the attention core keeps; its output has `width` numbers per token, which sees `seen` others.

    None: those of the sequence.
    """
    model, here = training.model, tokens(training)
    heads = model.heads / training.degrees.tensor
    scores = heads * here * (scored_tokens(training) if seen is None else seen)
    out = _of_attention("attention's output", HALF * here * width, "attn_proj")
    if training.software.fused_attention:
        copy = replace(out, name="attention's output in its own order")
        copies = [copy] if training.software.transposes_attention else []
        bias = [Tensor("scores of distances", Held.ATTENTION, HALF * scores, "core_attn")] if model.distances else []
        return [out, *copies, _of_attention("attention's sums", SINGLE * here * heads), *bias]
    # After the softmax; with dropout also its mask, and what it lets through.
    size = HALF * scores + ((MASK + HALF) * scores if model.dropout else 0)
    return [Tensor("attention's scores", Held.ATTENTION, size, "core_attn"), out]


def inside_tensors(training: Training, layer: LayerKind) -> list[Tensor]:
    """Return what the inside of a layer's MLP or experts keeps."""
    return [*(_mlp(training) if layer.mlp else []), *(_experts(training) if layer.experts else [])]


def _mlp(training: Training) -> list[Tensor]:
    return _inner(training, tokens(training), training.model.ffn / training.degrees.tensor, "mlp")


def _last_product(training: Training) -> list[Tensor]:
    """Return what the last product of a gated MLP gives, which `PRODUCTS` keeps although no backward reads it.

    It is one of those whose results are kept, whatever for; a compiler leaves it out. [torchtitan,
    torchtitan/distributed/activation_checkpoint.py: every second product from the first one on]
    """
    if not training.model.gated or training.software.fuses_casts:
        return []
    size = HALF * spread_tokens(training) * training.model.hidden
    return [Tensor("MLP's output", Held.MLP, size, instead_of=PRODUCTS)]


def _inner(training: Training, rows: float, width: float, module: str) -> list[Tensor]:
    """Return what the inside of an MLP keeps: inputs and output of its activation function."""
    held = Held.MLP if module == "mlp" else Held.EXPERTS
    size = input_item(training) * rows * width
    factor = [Tensor(f"factor of the activation, {module}", held, size, module, between_products=True)]
    if not training.software.fused_elementwise:
        whole = HALF * rows * width
        factor.append(Tensor(f"activation without its factor, {module}", held, whole, module, between_products=True))
    return [
        Tensor(f"input of the activation, {module}", held, size, module),
        *(factor if training.model.gated else []),
        Tensor(f"output of the activation, {module}", held, _saved(training) * rows * width, module, True),
    ]


def input_item(training: Training) -> float:
    """Return the bytes of a number that an activation function takes, as it is kept."""
    return 1.0 if training.software.saves_in_8_bits else HALF


def _experts(training: Training) -> list[Tensor]:
    model, degrees, experts = training.model, training.degrees, training.model.experts
    assert experts is not None
    split, spread = expert_tensor(training), tokens(training) / degrees.tensor
    routed = _routed(training)
    inner = _inner(training, routed, experts.ffn / split, "moe")
    # The router's weights are multiplied in behind the activation; fused gated activations do both at once.
    unweighed = Tensor("unweighed output, moe", Held.EXPERTS, HALF * routed * experts.ffn / split, "moe")
    shared = _inner(training, tokens(training), experts.shared_ffn / degrees.tensor, SHARED)
    return [
        Tensor(ROUTER, Held.EXPERTS, (2 * SINGLE + MASK) * spread * experts.scores, "moe"),
        Tensor(
            SENT,
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
