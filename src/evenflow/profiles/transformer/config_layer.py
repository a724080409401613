"""The sizes that one layer has in a configuration."""

from dataclasses import dataclass, fields

from evenflow.predict.layer_parts import ChunkedAttention, NarrowEnds
from evenflow.predict.transformer import LatentAttention, LayersWithState, Norms, OwnSizes
from evenflow.profiles.transformer.config_additions import further_parts
from evenflow.profiles.transformer.config_ffn import ffn_of
from evenflow.profiles.transformer.config_further import Further, Widths
from evenflow.profiles.transformer.spellings import Configuration
from evenflow.profiles.transformer.traits import ModelTypeTraits
from evenflow.ranges import MODEL_SIZE

_HEAD_NORMS = {"qwen3": "head", "olmo": "all"}
"""Over what norms of queries and keys are, by the type of models that a file names for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerSizes:
    """The sizes of one layer."""

    heads: int
    kv_heads: int
    head_dim: int | None
    value_dim: int
    ffn: int | None
    latent: LatentAttention | None
    norms: Norms
    sinks: bool
    further: Further
    key_products: int = 2
    together: int = 1
    chunked: ChunkedAttention | None = None

    def beside(self, usual: "LayerSizes") -> OwnSizes | None:
        """Return what differs from the usual sizes; None for nothing."""
        names = {field.name for field in fields(OwnSizes)} & {field.name for field in fields(self)}
        own = {name: getattr(self, name) for name in names if getattr(self, name) != getattr(usual, name)}
        if self.further.layer != usual.further.layer:
            own["additions"] = self.further.layer
        if self.further.handed_on != usual.further.handed_on:
            own["handed_on"] = self.further.handed_on
        return OwnSizes(**own) if own else None


def layer_sizes(
    config: Configuration, family: ModelTypeTraits, states: LayersWithState, *, layers: int, has_experts: bool
) -> LayerSizes:
    """Return the sizes of a layer that has what the configuration says for all.

    Raises:
        InputError: a missing or wrong size.
    """
    hidden = config.required("hidden")
    heads = _heads(config, family, states)
    latent = None if family.narrow_ends else _latent(config, family)
    head_dim = config.size("head_dim") if latent is None else None
    mixes_alone = states.mixer is not None and not states.attention_layers
    if states.mixer is not None and mixes_alone:
        head_dim = states.mixer.value_dim
    kv_heads = heads if latent is not None or mixes_alone else _kv_heads(config, family, heads)
    width = head_dim or (hidden // heads if heads <= hidden else 1)
    if head_dim is None and (hidden % heads or family.rounded_head_dim):
        head_dim = width if family.rounded_head_dim else None
    elif head_dim is None:
        head_dim = hidden // heads
    value_dim = config.size("value_dim") or 0 if latent is None else latent.value_dim
    ffn = ffn_of(config, family, states, layers=layers, has_experts=has_experts)
    widths = Widths(
        hidden=hidden, layers=layers, heads=heads, kv_heads=kv_heads, values=heads * (value_dim or width),
        head_dim=width, ffn=ffn or 0,
    )  # fmt: skip
    return LayerSizes(
        heads=heads, kv_heads=kv_heads, head_dim=head_dim, ffn=ffn, latent=latent,
        value_dim=value_dim if latent is None and value_dim != width else 0, sinks=family.sinks,
        norms=_norms(config, family, queries=heads * width, keys=kv_heads * width, width=width),
        further=further_parts(config, (*family.further, *head_gates(config, family)), widths),
    )  # fmt: skip


def head_gates(config: Configuration, family: ModelTypeTraits) -> tuple[str, ...]:
    """Return the further part that is a gate for every head, where the file asks for it."""
    asked = config.value(family.gate_key) if family.gate_key else None
    return ("head gate",) if asked is True or asked == "per-head" else ()


def output_gate(config: Configuration, family: ModelTypeTraits) -> bool:
    """Return whether a gate weighs every number of attention's output."""
    asked = config.value(family.gate_key) if family.gate_key else None
    by_flag = bool(family.output_gate_flag) and config.flag(family.output_gate_flag)
    return family.output_gate or by_flag or (isinstance(asked, str) and asked != "per-head")


def narrow_ends(config: Configuration, family: ModelTypeTraits) -> NarrowEnds | None:
    """Return the narrow products at both ends of attention; None for a type without."""
    if not family.narrow_ends:
        return None
    return NarrowEnds(
        query_rank=config.required("query_rank"),
        out_rank=config.required("out_rank"),
        out_groups=config.required("out_groups"),
    )


def _kv_heads(config: Configuration, family: ModelTypeTraits, heads: int) -> int:
    if family.multi_query and not config.flag("new_decoder_architecture"):
        return 1 if config.flag("multi_query", default="multi_query" in family.on) else heads
    return config.size("kv_heads") or heads


def _latent(config: Configuration, family: ModelTypeTraits) -> LatentAttention | None:
    if config.size("key_value_rank") is None:
        return None
    query_rank = config.size("query_rank") or 0
    if family.gate_of_queries:
        MODEL_SIZE.check(query_rank, place=config.fields.place(config.spelling("query_rank") or "q_lora_rank"))
    return LatentAttention(
        query_rank=query_rank,
        key_value_rank=config.required("key_value_rank"),
        rotary_dim=config.required("rotary_dim"),
        plain_dim=config.required("plain_dim"),
        value_dim=config.required("value_dim"),
        gate_of_queries=family.gate_of_queries,
    )


def _heads(config: Configuration, family: ModelTypeTraits, states: LayersWithState) -> int:
    """Return the heads of attention; those of the state mixer in a model without any attention."""
    if family.attention_experts:
        return config.required("kv_heads") * config.required("active")
    if states.mixer is not None and not states.attention_layers:
        return states.mixer.heads
    return config.required("heads")


def _norms(config: Configuration, family: ModelTypeTraits, *, queries: int, keys: int, width: int) -> Norms:
    of_layer = family.layer_norms
    if family.one_norm_flag and config.flag(family.one_norm_flag, default=family.one_norm_flag in family.on):
        norms_beside = config.value("num_ln_in_parallel_attn")
        is_new = config.flag("new_decoder_architecture")
        of_layer = 2 if is_new and norms_beside != 1 else 1
    if family.four_norms_flag and config.flag(family.four_norms_flag, default=family.four_norms_flag in family.on):
        of_layer = 4
    has_norms = bool(family.head_norms)
    if family.head_norms_flag:
        has_norms = config.flag(family.head_norms_flag, default=family.head_norms_flag in family.on)
    over = _HEAD_NORMS.get(str(config.value(family.head_norms_key)), family.head_norms)
    if not has_norms:
        queries = keys = 0
    elif over in ("head", "keys"):
        queries = keys = width * (2 if family.head_norm_biases else 1)
    return Norms(
        of_layer=of_layer, queries=0 if family.head_norms == "keys" else queries, keys=keys, last=family.last_norm,
        after_embedding=family.norm_after_embedding, learned=family.learned_norms,
    )  # fmt: skip
