"""What a model type may imply beyond the fields of its configuration."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenflow.predict.transformer import Biases


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelTypeTraits:
    """The traits that all models of one type share."""

    gated: bool = True
    tied: bool = False
    """Whether the output layer is the embedding's table where the file does not say it."""
    never_tied: bool = False
    """Whether it has a table of its own whatever the file says."""
    biases: Biases = field(default_factory=Biases)
    """Biases that no field switches."""
    switched: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Biases that a field switches, where it switches others than `SWITCHED`."""
    on: frozenset[str] = frozenset()
    """Flags that are set where the file does not say them."""
    defaults: Mapping[str, object] = field(default_factory=dict)
    """Fields that the file may leave out, with what they then are."""
    only: Mapping[str, tuple[object, ...]] = field(default_factory=dict)
    """Fields that are read with some values alone."""
    layer_norms: int = 2
    one_norm_flag: str = ""
    """The flag with which a layer has one norm: attention and MLP read the same."""
    learned_norms: bool = True
    head_norms: str = ""
    """Norms of queries and keys: ``head`` over the width of a head, ``all`` over all heads, ``keys`` of keys alone;
    empty for none."""
    head_norms_flag: str = ""
    """The flag that asks for them; empty: they are always there."""
    head_norms_key: str = ""
    """The field that says over what they are, as `config_layer` reads it; empty: none."""
    head_norm_biases: bool = False
    norm_after_embedding: bool = False
    ffn_times: int = 0
    """The width of the MLP in hidden sizes, where the file does not say it; 0: it must."""
    ffn_of_both: bool = False
    """Whether the width in the file is that of both projections of a gated MLP together."""
    learned_positions: bool = False
    more_positions: int = 0
    """Rows of the table of positions beyond the longest sequence."""
    multi_query: bool = False
    """Whether the flag ``multi_query`` means one head of keys and values."""
    full_every: int = 0
    """One layer in this many sees all tokens, the others a window; 0: all have it, if one is given."""
    full_from_last: bool = False
    """Whether these are counted from the last layer, which is one."""
    shared_always: bool = False
    """Whether there is one shared expert as wide as the others, whatever the file says."""
    shared_each: bool = False
    """Whether the width of shared experts in the file is that of each of them."""
    shared_gate: bool = False
    expert_biases: bool = False
    sinks: bool = False
    output_gate: bool = False
    """Whether attention's output is weighed by a projection as wide as the queries."""
    output_gate_flag: str = ""
    """The flag that asks for that; empty: none."""
    normed_residuals: bool = False
    """Whether residuals of blocks norm what they read, each by a norm of its own."""
    state: str = ""
    """What layers with a state have in the place of attention, as `config_states` names it; empty: all have that."""
    state_norms: bool = False
    """Whether the state mixer has norms that learn, inside it or on its output."""
    state_beside_attention: bool = False
    """Whether every layer has both, beside each other."""
    half_blocks: bool = False
    """Whether a layer is a mixer alone or an MLP alone."""
    shared_alone: bool = False
    """Whether a model without experts has the shared expert as its MLP."""
    further: tuple[str, ...] = ()
    """Further parts of layers and ends, as `config_additions` names them."""
    gate_key: str = ""
    """The field that asks for a gate of attention's output, of every head or of every number."""
    sinks_in_windows: bool = False
    """Whether the layers with a window, and only those, have sinks."""
    doubled_keys_in_windows: bool = False
    """Whether layers with a window have twice the heads of keys and values."""
    keys_are_values: bool = False
    narrow_ends: bool = False
    """Whether attention has narrow products before its queries and behind its output."""
    rounded_head_dim: bool = False
    """Whether a head is as wide as the hidden size by the heads, rounded down."""
    four_norms_flag: str = ""
    """The flag with which a layer has four norms."""
    first_norm_outside: bool = False
    """Whether the first layer's first norm is that of the embedding."""
    assumed: str = ""
    """How its training is taken to be where its file does not say it, in a sentence to translate."""
    last_norm: bool = True
    """Whether there is a norm before the output layer."""
    experts_flag: str = ""
    """The flag that asks for experts; empty: they are there where their number is."""
    experts_beside_mlp: bool = False
    image_experts: bool = False
    """Whether tokens of images go to experts of their own, whose width follows that of the others in the file."""
    further_mlp: bool = False
    """Whether blocks that predict further tokens have an MLP, even where layers have experts."""
    attention_experts: bool = False
    """Whether attention has experts too, each with as many heads of queries as there are of keys."""
    idle_experts: int = 0
    """Experts that the router knows and that compute nothing, where the file does not say it."""
    shared_scores: bool = False
    """Whether the router weighs the shared experts too."""
    repeats: int = 1
    """Times that attention and MLP come in a layer."""
    shared_blocks: str = ""
    """Which blocks layers share, as `config_shared` names them; empty: none."""
    chunked: bool = False
    """Whether attention is computed in chunks, as `config_chunks` reads them."""
    in_patches: bool = False
    """Whether layers in the middle work on patches of bytes, as `config_patches` reads them."""
    sees_images: str = ""
    """Which layers see images beside the sequence, as `config_image_layers` names them; empty: none."""
    loop: str = ""
    """Which layers tokens go through several times, as `config_loops` names it; empty: none."""
    gate_of_queries: bool = False
    """Whether a gate of attention's output comes with the queries of latent attention."""
    whole_is_indexed: bool = False
    """Whether layers that the file calls those with full attention see what an indexer chose."""
    wider_without_positions: bool = False
    """Whether layers without rotary positions have the part that carries them among the plain one."""
    ffn_factor: bool = False
    """Whether the MLP's width is the hidden size times the file's factor."""
    separate_inputs: bool = False
    """Whether queries, keys and values have a residual and a norm each, in layers that see all tokens."""
    reads: frozenset[str] = frozenset()
    """Fields of `REFUSED_FIELDS` that are read all the same."""
    adjusted_ffn: bool = False
    """Whether the file's width of the MLP is still to be multiplied and rounded, as its flags say."""


SWITCHED: Mapping[str, tuple[str, ...]] = {
    "attention_bias": ("queries", "out"),
    "attention_out_bias": ("out",),
    "qkv_bias": ("queries",),
    "use_qkv_bias": ("queries",),
    "add_qkv_bias": ("queries",),
    "mlp_bias": ("mlp",),
    "use_bias": ("queries", "out", "mlp"),
    "bias": ("queries", "out", "mlp"),
    "add_bias_linear": ("queries", "out", "mlp"),
    "lm_head_bias": ("logits",),
}
"""Biases that flags of configurations switch."""
ONLY: Mapping[str, tuple[object, ...]] = {"add_cross_attention": (False,)}
"""Fields of any type that are read with some values alone."""
