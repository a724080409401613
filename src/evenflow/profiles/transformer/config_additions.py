"""Further parts of layers and ends that a model type has, from its configuration."""

from collections.abc import Callable, Mapping

from evenflow.predict.layer_parts import Addition, Place
from evenflow.profiles.transformer.config_further import Further, Widths
from evenflow.profiles.transformer.config_streams import (
    alternating_updates,
    averaged_hyper_connections,
    gated_hyper_connections,
    hyper_connections,
    layer_inputs,
    plain_hyper_connections,
    reversible_parts,
)
from evenflow.profiles.transformer.spellings import Configuration


def further_parts(config: Configuration, names: tuple[str, ...], widths: Widths) -> Further:
    """Return the further parts of these names; raises InputError for a missing or wrong size."""
    found = Further()
    for name in names:
        found += _MAKERS[name](config, widths)
    return found


def _xielu(_config: Configuration, _widths: Widths) -> Further:
    """The activation function xIELU learns two numbers. [arXiv:2411.13010]"""
    return Further(layer=(Addition(name="mlp", place=Place.MLP, small=2),))


def _differences(_config: Configuration, widths: Widths) -> Further:
    """Differential attention learns how much of its second half to take off. [arXiv:2410.05258]"""
    return Further(
        layer=(
            Addition(
                name="core_attn", place=Place.ATTENTION, numbers=widths.values, moves=4, small=4 * widths.head_dim
            ),
        )
    )


def _inner_norms(_config: Configuration, widths: Widths) -> Further:
    """Norms before attention's output product and before the MLP's last one. [BitNet, arXiv:2504.12285]"""
    return Further(
        layer=(
            Addition(name="layernorm", place=Place.ATTENTION, numbers=widths.values, small=widths.values),
            Addition(name="layernorm", place=Place.MLP, numbers=widths.ffn, small=widths.ffn),
        )
    )


def _inner_mlp_norm(_config: Configuration, widths: Widths) -> Further:
    """A norm with a shift before the MLP's last product. [Kosmos-2.5]"""
    return Further(layer=(Addition(name="layernorm", place=Place.MLP, numbers=widths.ffn, small=2 * widths.ffn),))


def _shifted_inner_norms(config: Configuration, widths: Widths) -> Further:
    """Norms with a shift before attention's output product and before the MLP's last one. [Kosmos-2]"""
    values = widths.values
    before = Addition(name="layernorm", place=Place.ATTENTION, numbers=values, small=2 * values)
    return Further(layer=(before,)) + _inner_mlp_norm(config, widths)


def _head_shifts(_config: Configuration, widths: Widths) -> Further:
    """Norms of the heads of queries and keys learn a shift of every head. [Chameleon]"""
    small = (widths.heads + widths.kv_heads) * widths.head_dim
    return Further(layer=(Addition(name="layernorm", place=Place.ATTENTION, small=small),))


def _two_segments(_config: Configuration, widths: Widths) -> Further:
    """Every token gets a vector that says whether it is of text or of an image. [Kosmos-2.5]"""
    return Further(head=(Addition(name="embedding", numbers=widths.hidden, small=2 * widths.hidden),))


def _head_gate(_config: Configuration, widths: Widths) -> Further:
    """A learned gate weighs every head's output."""
    gate = Addition(
        name="core_attn", place=Place.ATTENTION, products=((widths.hidden, widths.heads),), numbers=widths.values
    )
    return Further(layer=(gate,))


def _head_gate_bias(_config: Configuration, widths: Widths) -> Further:
    return Further(layer=(Addition(name="core_attn", place=Place.ATTENTION, small=widths.heads),))


def _expert_norm(_config: Configuration, widths: Widths) -> Further:
    """A norm on what a layer's experts give."""
    return Further(layer=(Addition(name="layernorm", place=Place.EXPERTS, numbers=widths.hidden, small=widths.hidden),))


def _plain_head_norms(_config: Configuration, widths: Widths) -> Further:
    """Norms of the heads of queries and keys that learn nothing."""
    numbers = (widths.heads + widths.kv_heads) * widths.head_dim
    return Further(layer=(Addition(name="layernorm", place=Place.ATTENTION, numbers=numbers),))


def _plain_norms_of_all_heads(config: Configuration, widths: Widths) -> Further:
    """Norms of the heads of queries, keys and attention's output that learn nothing. [Muse Spark]"""
    output = Addition(name="layernorm", place=Place.ATTENTION, numbers=widths.values)
    return _plain_head_norms(config, widths) + Further(layer=(output,))


def _residual_gates(_config: Configuration, widths: Widths) -> Further:
    """Learned shares of the residual and of what attention and MLP add to it. [Muse Spark]"""
    small = 2 * widths.hidden - widths.hidden  # the norm behind attention learns nothing
    return Further(layer=(Addition(name="residual", numbers=2 * widths.hidden, moves=3, small=small),))


def _norms_around_experts(config: Configuration, widths: Widths) -> Further:
    """Norms of what narrow experts read, and of what each of them gives. [Muse Spark]"""
    width = config.size("experts_width")
    if not width:
        return Further()
    numbers = width * (1 + config.required("active"))
    return Further(layer=(Addition(name="layernorm", place=Place.EXPERTS, numbers=numbers, small=2 * width),))


def _norm_of_narrow_experts(config: Configuration, widths: Widths) -> Further:
    """A norm of what narrow experts give together, before it is as wide as the residual again. [Kimi K3]"""
    width = config.size("experts_width")
    if not width or not config.flag("latent_moe_use_norm"):
        return Further()
    return Further(layer=(Addition(name="layernorm", place=Place.EXPERTS, numbers=width, small=width),))


def _relative_bias(config: Configuration, widths: Widths) -> Further:
    """A bias of attention's scores by distance, which every head mixes from learned profiles. [Inkling]

    A kernel of attention reads what the profiles give for every distance, and again for the backward.
    """
    width, reach = config.required("bias_width"), config.required("bias_reach")
    bias = Addition(
        name="core_attn", place=Place.ATTENTION, products=((widths.hidden, widths.heads * width),),
        repeated=((width, reach, widths.heads),),
    )  # fmt: skip
    return Further(layer=(bias,))


def _short_convolutions(config: Configuration, widths: Widths) -> Further:
    """Causal convolutions of a few tokens, channel by channel in 32 bits: of keys and values, and of what is added.

    [Inkling]
    """
    kernel, keyed = config.required("short_kernel"), 2 * widths.kv_heads * widths.head_dim

    def convolution(place: Place, channels: int) -> Addition:
        return Addition(name="convolution", place=place, numbers=2 * channels, moves=3, small=kernel * channels)

    return Further(layer=(convolution(Place.ATTENTION, keyed), convolution(Place.LAYER, 2 * widths.hidden)))


def _clipped_heads(config: Configuration, widths: Widths) -> Further:
    """Vectors of queries, keys, values and biases that are not longer than a limit; scales of the first and last.

    [Inkling 2]
    """
    scaled = widths.heads * (widths.head_dim + config.required("bias_width"))
    numbers = scaled + 2 * widths.kv_heads * widths.head_dim
    return Further(layer=(Addition(name="layernorm", place=Place.ATTENTION, numbers=numbers, small=scaled),))


def _token_sinks(_config: Configuration, widths: Widths) -> Further:
    """Every token gives every head a number that joins its softmax and takes no value. [Inkling 2]"""
    sinks = Addition(name="core_attn", place=Place.ATTENTION, products=((widths.hidden, widths.heads),))
    return Further(layer=(sinks,))


def _fewer_words(config: Configuration, widths: Widths) -> Further:
    """The output layer lacks the rows that fill up the table of the embedding."""
    words = config.required("vocabulary")
    lacking = words - (config.size("output_vocabulary") or words)
    return Further(tail=(Addition(name="output", small=-lacking * widths.hidden),) if lacking else ())


def _scales(_config: Configuration, _widths: Widths) -> Further:
    """One learned scale of an MLP's output, or of the weights of experts. [Inkling]"""
    return Further(layer=tuple(Addition(name=place, place=place, small=1) for place in (Place.MLP, Place.EXPERTS)))


def _convolved_keys(config: Configuration, widths: Widths) -> Further:
    """Queries and keys mixed with each other and convolved over some tokens, channel by channel and head by head.

    [Compressed convolutional attention, arXiv:2510.04476; ZAYA]
    """
    keyed = (widths.heads + widths.kv_heads) * widths.head_dim
    products = ((config.required("heads_kernel") * widths.head_dim, keyed),)  # each head by itself
    small = (config.required("keys_kernel") + 2) * keyed + widths.kv_heads
    return Further(
        layer=(
            Addition(
                name="core_attn", place=Place.ATTENTION, products=products, numbers=4 * keyed, moves=3, small=small
            ),
        )
    )


def _scaled_residuals(_config: Configuration, widths: Widths) -> Further:
    """A residual in 32 bits; learned scales and shifts of it, and of what attention and experts add. [ZAYA]"""
    hidden = widths.hidden
    return Further(
        layer=(Addition(name="residual", numbers=3 * hidden, moves=4, small=8 * hidden),),
        head=(Addition(name="residual", numbers=2 * hidden, small=2 * hidden),),
        handed_on=hidden,
    )


def _deep_router(config: Configuration, widths: Widths) -> Further:
    """A router of three narrow products, which reads what that of the layer before gave. [ZAYA]"""
    width = config.required("router_width")
    router = Addition(
        name="moe", place=Place.EXPERTS, products=((widths.hidden, width), (width, width), (width, width)),
        numbers=4 * width, moves=3, small=5 * width,
    )  # fmt: skip
    first = Addition(name="moe", small=-width)  # the first one has no scale of one before it
    return Further(layer=(router,), head=(first,), handed_on=width)


def _gated_norms(config: Configuration, widths: Widths) -> Further:
    """Norms whose output weighs itself through narrow products, before attention and before experts. [A.X-K2]"""
    narrow, hidden = config.required("norm_rank"), widths.hidden
    products = ((hidden, narrow), (narrow, hidden))
    places = (Place.ATTENTION, Place.EXPERTS)
    return Further(
        layer=tuple(
            Addition(name="layernorm", place=place, products=products, numbers=hidden, moves=3) for place in places
        )
    )


def _experts_bias(_config: Configuration, widths: Widths) -> Further:
    """One bias of what a layer's experts give together. [JetMoE]"""
    return Further(layer=(Addition(name="moe", place=Place.EXPERTS, numbers=widths.hidden, small=widths.hidden),))


def _rotary_norm(config: Configuration, _widths: Widths) -> Further:
    """A norm of the part of latent attention's key that carries the position."""
    width = config.required("rotary_dim")
    return Further(layer=(Addition(name="layernorm", place=Place.ATTENTION, numbers=width, small=width),))


def _narrow_residual(config: Configuration, widths: Widths) -> Further:
    """A narrow learned path beside attention. [LAuReL, arXiv:2411.07501]"""
    narrow, hidden = config.required("residual_rank"), widths.hidden
    return Further(
        layer=(
            Addition(
                name="laurel", products=((hidden, narrow), (narrow, hidden)), numbers=2 * hidden, small=hidden
            ),
        )
    )  # fmt: skip


def _beside_experts(config: Configuration, widths: Widths) -> Further:
    """Norms of the MLP and of the experts beside it, and scales of the router. [Gemma 4]"""
    if not config.size("experts"):
        return Further()
    small = 4 * widths.hidden + config.required("experts")
    return Further(layer=(Addition(name="layernorm", place=Place.EXPERTS, numbers=4 * widths.hidden, small=small),))


def _output_block(_config: Configuration, widths: Widths) -> Further:
    """A product, an activation and a norm before the output layer. [ModernBERT's decoders]"""
    block = Addition(
        name="output", products=((widths.hidden, widths.hidden),), numbers=2 * widths.hidden, small=widths.hidden
    )
    return Further(tail=(block,))


def _last_bias(_config: Configuration, widths: Widths) -> Further:
    """The last layer's attention alone adds a bias. [GPT-NeoX for Japanese]"""
    return Further(tail=(Addition(name="out", numbers=widths.hidden, small=widths.hidden),))


def _further_word(_config: Configuration, widths: Widths) -> Further:
    """The embedding has a row that the output layer has not."""
    return Further(head=(Addition(name="embedding", small=widths.hidden),))


def _further_words(config: Configuration, widths: Widths) -> Further:
    """The embedding has rows beyond the vocabulary, which no output layer gives. [Molmo 2, Llama 3.2 Vision]"""
    rows = config.size("further_vocabulary") or 0
    return Further(head=(Addition(name="embedding", table=rows * widths.hidden),) if rows else ())


def _further_words_of_both(config: Configuration, widths: Widths) -> Further:
    """Embedding and output layer have rows beyond the vocabulary. [IDEFICS]"""
    rows = config.size("further_vocabulary") or 0
    tail = (Addition(name="output", table=rows * widths.hidden),) if rows else ()
    return _further_words(config, widths) + Further(tail=() if config.flag("tie_word_embeddings") else tail)


def _scaled_heads(config: Configuration, widths: Widths) -> Further:
    """Every head learns how its queries grow with the logarithm of their place, those of the indexer too.

    It norms what these queries are projected from. [Mistral Large 4]
    """
    numbers = widths.heads * (config.required("plain_dim") + config.required("rotary_dim"))
    heads = config.required("index_heads")
    indexer = Addition(
        name="indexer", place=Place.INDEXER, numbers=widths.hidden + heads * config.required("index_width"),
        small=2 * widths.hidden + 2 * heads,
    )  # fmt: skip
    queries = Addition(name="core_attn", place=Place.ATTENTION, numbers=numbers, small=2 * widths.heads)
    return Further(layer=(queries, indexer))


def _learned_frequencies(config: Configuration, _widths: Widths) -> Further:
    """Scales of the frequencies of rotary positions, which all layers share. [Mistral Large 4]"""
    return Further(head=(Addition(name="rotary", small=config.required("rotary_dim") // 2),))


def _prompts(config: Configuration, widths: Widths) -> Further:
    """Tables of segments, prompts and relative positions. [CPM-Ant]"""
    segments, prompts = config.required("segments"), config.required("prompts")
    rows = segments + prompts * config.required("prompt_length")
    buckets = config.required("position_buckets") + segments * segments
    return Further(head=(Addition(name="embedding", small=rows * widths.hidden + buckets * widths.heads),))


def _dynamic_mask(_config: Configuration, widths: Widths) -> Further:
    """Every head learns from its values which tokens to see; residuals are weighed. [Doge]"""
    kv_heads = widths.kv_heads
    return Further(
        layer=(
            Addition(
                name="core_attn", place=Place.ATTENTION, products=((kv_heads * widths.head_dim, kv_heads),),
                numbers=kv_heads, small=kv_heads,
            ),
            Addition(name="residual", numbers=2 * widths.hidden, small=2 * widths.hidden),
        )
    )  # fmt: skip


def _receptance(_config: Configuration, widths: Widths) -> Further:
    """A gate of the MLP's output, and tokens mixed with those before them. [RWKV, arXiv:2305.13048]"""
    hidden = widths.hidden
    return Further(
        layer=(
            Addition(name="mlp", place=Place.MLP, products=((hidden, hidden),), numbers=3 * hidden, small=2 * hidden),
        )
    )


def _gate_bias(config: Configuration, widths: Widths) -> Further:
    """The gate of attention's output adds a bias where its other products do. [HRM-Text]"""
    small = widths.values if config.flag("attention_bias") else 0
    return Further(layer=(Addition(name="core_attn", place=Place.ATTENTION, small=small),) if small else ())


def _unit_vectors(config: Configuration, widths: Widths) -> Further:
    """Vectors of one length everywhere: norms that learn nothing, scales of queries, gate, MLP, residuals and logits.

    [nGPT, arXiv:2410.01131; Dory]
    """
    values, words = widths.values, config.required("vocabulary")
    attention = Addition(name="layernorm", place=Place.ATTENTION, numbers=2 * values, small=values)
    queries = Addition(name="layernorm", place=Place.ATTENTION, numbers=values, small=widths.heads * widths.head_dim)
    mlp = Addition(name="layernorm", place=Place.MLP, numbers=3 * widths.ffn, small=2 * widths.ffn)
    residual = Addition(name="residual", numbers=2 * widths.hidden, small=2 * widths.hidden)
    logits = Addition(name="output", numbers=words, table=words)
    return Further(layer=(attention, queries, mlp, residual), tail=(logits,))


def _distances(config: Configuration, widths: Widths) -> Further:
    """Keys of the distances between tokens, and biases of queries for these, for tokens and for segments. [XLNet]

    They are one product of the sines of all distances: of both directions where tokens see all others.
    """
    sees_all = config.value("attn_type") == "bi"
    queries, times = widths.heads * widths.head_dim, 2 if sees_all else 1
    keys = Addition(
        name="core_attn", place=Place.ATTENTION, repeated=((widths.hidden, queries, times),), numbers=2 * queries,
        small=5 * queries,
    )  # fmt: skip
    return Further(layer=(keys,), bidirectional=sees_all, distances=times)


_MAKERS: Mapping[str, Callable[[Configuration, Widths], Further]] = {
    "xielu": _xielu,
    "differences": _differences,
    "inner norms": _inner_norms,
    "inner-MLP norm": _inner_mlp_norm,
    "shifted-inner-norms": _shifted_inner_norms,
    "head shifts": _head_shifts,
    "two segments": _two_segments,
    "head gate": _head_gate,
    "head-gate-bias": _head_gate_bias,
    "expert norm": _expert_norm,
    "gated norms": _gated_norms,
    "plain-head-norms": _plain_head_norms,
    "plain-norms-of-all-heads": _plain_norms_of_all_heads,
    "residual gates": _residual_gates,
    "norms-around-experts": _norms_around_experts,
    "norm-of-narrow-experts": _norm_of_narrow_experts,
    "relative bias": _relative_bias,
    "short convolutions": _short_convolutions,
    "clipped heads": _clipped_heads,
    "token sinks": _token_sinks,
    "fewer words": _fewer_words,
    "scales": _scales,
    "convolved keys": _convolved_keys,
    "scaled residuals": _scaled_residuals,
    "deep router": _deep_router,
    "experts' bias": _experts_bias,
    "rotary norm": _rotary_norm,
    "hyper-connections": hyper_connections,
    "plain hyper-connections": plain_hyper_connections,
    "averaged hyper-connections": averaged_hyper_connections,
    "gated hyper-connections": gated_hyper_connections,
    "layer inputs": layer_inputs,
    "alternating updates": alternating_updates,
    "narrow residual": _narrow_residual,
    "beside experts": _beside_experts,
    "output block": _output_block,
    "last bias": _last_bias,
    "further word": _further_word,
    "further words": _further_words,
    "further-words-of-both": _further_words_of_both,
    "scaled heads": _scaled_heads,
    "learned frequencies": _learned_frequencies,
    "prompts": _prompts,
    "dynamic mask": _dynamic_mask,
    "receptance": _receptance,
    "gate bias": _gate_bias,
    "unit vectors": _unit_vectors,
    "distances": _distances,
    "reversible": reversible_parts,
}
