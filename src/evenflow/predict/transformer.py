"""A transformer as plain numbers, from which its operators, parameters and activations follow."""

from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.language import _


@dataclass(frozen=True, slots=True, kw_only=True)
class Experts:
    """A mixture of experts in place of the MLP. [DeepSeekMoE, arXiv:2401.06066]"""

    count: int
    active: int
    """Experts that every token goes to."""
    ffn: int
    """Width of one expert."""
    shared_ffn: int = 0
    """Width of all experts together that every token goes to beside its own; 0 without."""
    dense_layers: int = 0
    """First layers that have an ordinary MLP."""
    every: int = 1
    """Of the other layers, one in this many has experts."""
    mlp_layers: tuple[int, ...] = ()
    """Further layers that have an ordinary MLP."""
    shared_gate: bool = False
    """Whether a learned gate weighs what the shared experts give."""
    capacity_factor: float | None = None
    """Shares of an equal load that an expert takes at most, of those that a device routes; None: as many as come."""

    def bounded_load(self, devices: int) -> float | None:
        """Return how many equal shares of tokens the fullest of `devices` may get; None without a capacity limit.

        A device that has all experts has its share of the tokens.
        """
        if devices == 1:
            return 1.0
        if self.capacity_factor is None:
            return None
        return fullest_load(self.capacity_factor, count=self.count, active=self.active)


def fullest_load(capacity: float, *, count: int, active: int) -> float:
    """Return how many equal shares of tokens an expert takes at most; it can get every token once."""
    return max(1.0, min(capacity, count / active))


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentAttention:
    """Multi-head latent attention: narrow projections of queries, keys, values. [DeepSeek-V2, arXiv:2405.04434]"""

    query_rank: int
    """Width that queries go through; 0: they are projected at once."""
    key_value_rank: int
    rotary_dim: int
    """Width of the part of a query and a key that carries the position."""
    plain_dim: int
    """Width of the other part."""
    value_dim: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Biases:
    """Which products and norms add a bias."""

    queries: bool = False
    """The projections to queries, keys and values; of latent attention, those to their narrow forms."""
    out: bool = False
    """The projection out of attention."""
    mlp: bool = False
    experts: bool = False
    """The router, and the products of every expert."""
    norms: bool = False
    logits: bool = False
    """The output layer."""


EVERY_BIAS = Biases(queries=True, out=True, mlp=True, norms=True)
"""As in GPT-2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Norms:
    """The norms of a model beside the last one, and what they learn."""

    of_layer: int = 2
    """Of each body layer, over the hidden size."""
    queries: int = 0
    """Numbers that the norm of a layer's queries learns: the width of a head, or of all heads; 0 without one."""
    keys: int = 0
    """As `queries`, of the keys."""
    after_embedding: bool = False
    learned: bool = True
    """Whether norms have weights at all."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A decoder: embedding, equal blocks of attention and MLP (or experts), norm, output layer, loss."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    """Heads of keys and values: fewer than `heads` where queries share them."""
    head_dim: int
    ffn: int
    vocabulary: int
    gated: bool
    """Whether the MLP multiplies two projections (SwiGLU): three matrices, not two."""
    tied: bool = False
    """Whether the output layer is the embedding's table."""
    positions: int = 0
    """Learned positions; 0 for rotary ones or none."""
    biases: Biases = Biases()
    norms: Norms = Norms()
    sinks: bool = False
    """Whether every head learns a number that joins its softmax and takes no value."""
    experts: Experts | None = None
    latent: LatentAttention | None = None
    window: int = 0
    """Tokens before it that a token sees in layers with a sliding window; 0: all."""
    unwindowed_layers: tuple[int, ...] = ()
    """Layers without the window."""
    predicted_tokens: int = 0
    """Further tokens that are predicted, each by a block and the output layer (multi-token prediction)."""
    dropout: bool = False
    name: str = "model"

    def __post_init__(self) -> None:
        sizes = ("hidden", "layers", "heads", "kv_heads", "head_dim", "vocabulary")
        for field in sizes:
            self._require(getattr(self, field) >= 1, getattr(self, field), _("must be at least 1"), field)
        fits = self.heads % self.kv_heads == 0
        rule = _("must divide the {heads} heads of the queries", heads=self.heads)
        self._require(fits, self.kv_heads, rule, "kv_heads")
        if self.experts is not None:
            most = self.experts.count
            rule = _("must be from 1 to the {count} experts", count=most)
            self._require(1 <= self.experts.active <= most, self.experts.active, rule, "active_experts")

    def _require(self, holds: bool, value: object, rule: str, field: str) -> None:
        if not holds:
            raise InputError(value=value, rule=rule, place=f"{self.name}, {field}")

    def has_experts(self, layer: int) -> bool:
        """Whether body layer `layer`, counted from 0, has experts."""
        experts = self.experts
        if experts is None or layer < experts.dense_layers or layer in experts.mlp_layers:
            return False
        return layer % experts.every == experts.every - 1

    def has_window(self, layer: int) -> bool:
        """Whether body layer `layer`, counted from 0, has the sliding window."""
        return bool(self.window) and layer not in self.unwindowed_layers
