"""A transformer as plain numbers, from which its operators, parameters and activations follow."""

from dataclasses import dataclass, fields, replace
from enum import StrEnum
from functools import lru_cache

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.layer_parts import (
    Addition,
    ChunkedAttention,
    ImageAttention,
    Indexer,
    Loop,
    NarrowEnds,
    PatchAttention,
    Place,
    StateMixer,
)


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
    width: int = 0
    """Width that tokens are projected to before they go to their experts, and back behind them; 0: the hidden size."""
    idle: int = 0
    """Further experts that the router knows and that give a token back as it is. [LongCat-Flash, arXiv:2509.01322]"""
    shared_scores: int = 0
    """Shared experts that the router weighs too."""
    router_width: int = 0
    """Width that the router reads; 0: the hidden size."""
    image_ffn: int = 0
    """Width of as many further experts, with a router of their own, which tokens of images alone go to; 0 without."""
    beside_mlp: bool = False
    """Whether a layer with experts has its MLP beside them."""
    capacity_factor: float | None = None
    """Shares of an equal load that an expert takes at most, of those that a device routes; None: as many as come."""
    groups: int = 1
    """Equal groups of experts, one after the other."""
    chosen_groups: int = 1
    """Groups that the experts of a token are in at most. [DeepSeek-V3, arXiv:2412.19437, section 2.1.2]"""

    @property
    def scores(self) -> int:
        """Scores that the router gives a token."""
        return self.count + self.idle + self.shared_scores

    @property
    def computed(self) -> float:
        """Experts of a token that do compute, where a router sends equally many tokens to all."""
        return self.active * self.count / (self.count + self.idle)

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
    gate_of_queries: bool = False
    """Whether one product gives queries and a gate of attention's output, from narrow queries behind their norm and
    before it. [A.X-K2]"""

    @property
    def queried(self) -> int:
        """Width that queries are projected from, once they are narrow."""
        return self.query_rank * (2 if self.gate_of_queries else 1)

    @property
    def gate_dim(self) -> int:
        """Numbers of a head's gate that come with its queries."""
        return self.value_dim if self.gate_of_queries else 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LayersWithState:
    """The state mixer of a model, and which body layers, counted from 0, have which parts."""

    mixer: StateMixer | None = None
    layers: tuple[int, ...] = ()
    """Layers that have the state mixer."""
    attention_layers: tuple[int, ...] | None = None
    """Layers that have attention; None: all that have no state mixer."""
    bare_layers: tuple[int, ...] = ()
    """Layers that have neither an MLP nor experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerKind:
    """The parts of one body layer; layers of equal kinds are equal."""

    attention: bool = True
    window: bool = False
    """Whether attention sees a sliding window alone."""
    state: bool = False
    """Whether it has the state mixer: in the place of attention, or beside it, from the same input."""
    mlp: bool = True
    experts: bool = False
    """Whether it has experts, in the place of the MLP or beside it."""
    indexed: bool = False
    """Whether an indexer chooses what attention sees, its own or that of an earlier layer."""
    indexer: bool = False
    """Whether it has the indexer."""
    own: "OwnSizes | None" = None
    """Its sizes, where they differ from the model's."""
    frozen: bool = False
    """Whether it is not trained, nor is anything before it: it has no backward and keeps nothing for one."""
    second: bool = False
    """Whether it is the second half of a block, whose further parts are in the first."""
    shared: bool = False
    """Whether it begins with a block of attention and MLP whose weights other layers have too."""
    passes: int = 1
    """Times that tokens go through it."""
    unkept: int = 0
    """Further times, from which no gradients come back."""
    joined: bool = False
    """Whether it is in the stage of the layer before it."""
    sees_images: bool = False
    """Whether attention sees the tokens of images, in the place of those of the sequence."""

    @property
    def mixes(self) -> bool:
        """Whether tokens see others here at all."""
        return self.attention or self.state

    @property
    def transforms(self) -> bool:
        """Whether there is an MLP or experts."""
        return self.mlp or self.experts

    @property
    def is_looped(self) -> bool:
        """Whether tokens go through it several times."""
        return self.passes + self.unkept > 1

    @property
    def own_pass(self) -> "LayerKind":
        """What is its own in one pass: without the block that it shares, and without gradients that pass it by."""
        return replace(self, shared=False, passes=1, unkept=0)


DENSE = LayerKind()
"""Attention over all tokens and an MLP."""
WITH_EXPERTS = LayerKind(mlp=False, experts=True)
"""Attention over all tokens and experts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Biases:
    """Which products and norms add a bias."""

    queries: bool = False
    """The projections to queries, keys and values; of latent attention, those to their narrow forms."""
    keys: bool = True
    """Whether the projection to keys has one too, where that to queries does."""
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
    last: bool = True
    """Whether there is one before the output layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnSizes:
    """Sizes of a layer that differ from the model's, under the names that the model has for them; None: they do not."""

    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    value_dim: int | None = None
    key_products: int | None = None
    ffn: int | None = None
    latent: LatentAttention | None = None
    norms: Norms | None = None
    sinks: bool | None = None
    together: int | None = None
    additions: tuple[Addition, ...] | None = None
    handed_on: int | None = None
    chunked: ChunkedAttention | None = None
    hidden: int | None = None
    of_patches: bool | None = None
    crossing: PatchAttention | None = None
    patch_width: int | None = None


class Modality(StrEnum):
    """What an encoder makes tokens of."""

    IMAGE = "image"
    AUDIO = "audio"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stem:
    """One step of what makes the input of an encoder's blocks: of patches, or of the spectrum of a sound."""

    part: Addition
    times: int = 1
    """Times that it works for a patch: a convolution before another that skips works for what that skips too."""
    fixed: int = 0
    """Numbers that it holds and that are never trained, such as the sines of positions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tower:
    """An encoder in front of a decoder: blocks over patches, and what makes tokens of the decoder of them.

    What is called a patch here is, of a sound, what its blocks have for a stretch of time.
    """

    modality: Modality = Modality.IMAGE
    blocks: "Transformer"
    """Its blocks; it has no vocabulary."""
    before: tuple[Stem, ...]
    """What makes the input of the blocks of a patch, one step after the other."""
    behind: Addition
    """What makes a token of the decoder of `merged` patches (the projector)."""
    merged: int
    """Patches that become one token."""
    inputs: int
    """Images of a sequence, or clips of sound."""
    patches: int
    """Patches of an image or of a clip."""
    further: int = 0
    """Further patches of each in the blocks, which become no token: one for its class, or those of added silence."""
    taps: tuple[int, ...] = ()
    """Blocks behind which a projector of its own makes tokens for the first layers of the decoder, one layer each.
    [DeepStack, arXiv:2406.04334]"""
    tap: Addition | None = None
    """That projector."""
    frozen: bool = False
    """Whether the blocks are not trained; the projector is, unless the embedding is not."""
    is_beside: bool = False
    """Whether its tokens are beside the sequence, where attention of some layers sees them."""
    recomputed: bool = False
    """Whether the backward computes the blocks again, which keep their inputs alone, where they are in one stage."""

    @property
    def tokens(self) -> int:
        """Tokens of a sequence that the decoder gets from its images or clips."""
        return self.inputs * (self.patches // self.merged)


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedBlocks:
    """Blocks of attention and MLP whose weights several layers share, each of which begins with one. [Zamba2,
    arXiv:2411.15242]

    Every rank of a pipeline holds all of them.
    """

    block: "Transformer"
    """One of them; it has no vocabulary."""
    count: int
    """Blocks that differ, in turn."""
    layers: tuple[int, ...]
    """Layers that begin with one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Patches:
    """Patches that the tokens of a sequence, which are bytes, are grouped in. [BLT, arXiv:2412.09871]"""

    size: float
    """Tokens of a patch on average, which follow from data."""
    chooser: "Transformer | None" = None
    """The model that chooses where patches begin, which runs without gradients; None: the data has them."""

    def count(self, sequence: int) -> int:
        """Return the patches of a sequence."""
        return max(1, round(sequence / self.size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Transformer:
    """A decoder: embedding, blocks of attention and MLP (or experts), norm, output layer, loss."""

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
    states: LayersWithState = LayersWithState()
    output_gate: bool = False
    """Whether attention's output is weighed by a projection as wide as it."""
    value_dim: int = 0
    """Width of a head's values; 0: as wide as its queries."""
    key_products: int = 2
    """Products that give keys and values: 1 where values are the keys, 0 where both are those of an earlier layer."""
    narrow_ends: NarrowEnds | None = None
    together: int = 1
    """Tokens beyond the window that attention sees as one; 1: it sees none beyond the window."""
    attention_experts: bool = False
    """Whether attention has experts too, as many as stand in the place of the MLP: each of a token's gives it an equal
    part of the heads of its queries, and reads what comes out of them. [JetMoE, arXiv:2404.07413]"""
    indexer: Indexer | None = None
    indexed_layers: tuple[int, ...] = ()
    """Layers in which attention sees the tokens that an indexer chose."""
    indexer_layers: tuple[int, ...] = ()
    """Those of them that have the indexer; the others take what an earlier layer's chose."""
    additions: tuple[Addition, ...] = ()
    """Further parts of layers."""
    head_additions: tuple[Addition, ...] = ()
    """Further parts of the embedding."""
    tail_additions: tuple[Addition, ...] = ()
    """Further parts before the output layer."""
    own: tuple[OwnSizes | None, ...] = ()
    """Each layer's own sizes; empty: all have the model's."""
    repeats: int = 1
    """Times that attention and MLP come in a layer, one after the other."""
    attention_width: int = 0
    """Width that queries, keys and values are projected from; 0: the hidden size."""
    shared: SharedBlocks | None = None
    loops: tuple[Loop, ...] = ()
    """Layers that tokens go through several times."""
    images: ImageAttention | None = None
    streams: int = 1
    """Residual streams that go from layer to layer, each as wide as the hidden size."""
    carried: int = 0
    """Numbers of a token that go from the embedding to all layers, beside the streams."""
    handed_on: int = 0
    """Numbers of a token that each layer gives to the next beside the streams: what a router gives, and as many as the
    hidden size where the stream is in 32 bits."""
    chunked: ChunkedAttention | None = None
    """In which chunks attention is computed; None: every token sees all others that it may see."""
    reversible: bool = False
    """Whether a layer's inputs are computed again from its outputs, so that it keeps neither them nor what is inside.
    [Reformer, arXiv:2001.04451, §3]"""
    output_width: int = 0
    """Width that the output layer reads; 0: the hidden size."""
    fixed_sequence: int = 0
    """Tokens of every sequence that it is trained on, whose positions are rows and columns; 0: any number."""
    patches: Patches | None = None
    of_patches: bool = False
    """Whether a layer works on patches, and not on tokens."""
    crossing: PatchAttention | None = None
    """Attention between tokens and patches that a layer has beside its own."""
    patch_width: int = 0
    """Numbers of a patch that a layer of tokens gives to the next one beside these."""
    bidirectional: bool = False
    """Whether tokens see those behind them too."""
    distances: int = 0
    """Distances of which queries meet keys, for each token that they see: 1 where tokens see those before them, 2 where
    they see all; 0 without such keys. [Transformer-XL, arXiv:1901.02860, §3.3]"""
    predicted_tokens: int = 0
    """Further tokens that are predicted, each by a block and the output layer (multi-token prediction)."""
    further_mlp: bool = False
    """Whether these blocks have an MLP, even where layers have experts."""
    towers: tuple[Tower, ...] = ()
    """The encoders in front of it, whose images or clips of sound sequences have."""
    dropout: bool = False
    frozen_layers: int = 0
    """First body layers that are not trained; with any, the embedding is not either."""
    adapter_rank: int = 0
    """Width of the adapters that are trained beside every product of the body layers, in place of its weight; 0: none.
    [LoRA, arXiv:2106.09685]"""
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
        rule = _("must be fewer than the {count} layers", count=self.layers)
        self._require(0 <= self.frozen_layers < self.layers, self.frozen_layers, rule, "frozen_layers")
        for loop in self.loops:
            outer = (other.first for other in reversed(self.loops) if other.first <= loop.first and not other.inner)
            begin = next(outer, loop.first)
            rule = _(
                "must be at most {first} or at least {end}: tokens go through the layers between several times",
                first=begin,
                end=loop.end,
            )
            self._require(not begin < self.frozen_layers < loop.end, self.frozen_layers, rule, "frozen_layers")

    def _require(self, holds: bool, value: object, rule: str, field: str) -> None:
        if not holds:
            raise InputError(value=value, rule=rule, place=f"{self.name}, {field}")

    @property
    def message_width(self) -> int:
        """Numbers of a token that a stage sends to the next one: what its last layer gives, and what goes to all."""
        return self.given + self.carried

    @property
    def given(self) -> int:
        """Numbers of a token that a layer gives to the next: every residual stream, and what else it hands on."""
        return self.streams * self.hidden + self.handed_on

    @property
    def kinds(self) -> tuple[LayerKind, ...]:
        """The kind of every body layer."""
        return _kinds(self)

    def kind(self, layer: int) -> LayerKind:
        """Return the kind of body layer `layer`, counted from 0."""
        states = self.states
        state = states.mixer is not None and layer in states.layers
        attention = not state if states.attention_layers is None else layer in states.attention_layers
        transforms, experts = layer not in states.bare_layers, self._has_experts(layer)
        beside = self.experts is not None and self.experts.beside_mlp
        loop = next((loop for loop in self.loops if loop.first <= layer < loop.end), None)
        return LayerKind(
            attention=attention, window=attention and bool(self.window) and layer not in self.unwindowed_layers,
            state=state, mlp=transforms and (beside or not experts), experts=transforms and experts,
            indexed=attention and layer in self.indexed_layers, indexer=attention and layer in self.indexer_layers,
            own=self.own[layer] if self.own else None, frozen=layer < self.frozen_layers,
            shared=self.shared is not None and layer in self.shared.layers, passes=loop.passes if loop else 1,
            unkept=loop.unkept if loop else 0, joined=loop is not None and (loop.inner or layer > loop.first),
            sees_images=self.images is not None and layer in self.images.layers,
        )  # fmt: skip

    def with_sizes_of(self, kind: LayerKind) -> "Transformer":
        """Return the model with the sizes that a layer of this kind has."""
        if kind.own is None:
            return self
        own = {field.name: getattr(kind.own, field.name) for field in fields(kind.own)}
        return replace(self, own=(), **{name: value for name, value in own.items() if value is not None})

    def additions_of(self, kind: LayerKind) -> tuple[Addition, ...]:
        """Return the further parts of a layer of this kind; the model must have its sizes."""
        there = {
            Place.LAYER: not kind.second,
            Place.ATTENTION: kind.attention,
            Place.MLP: kind.mlp,
            Place.EXPERTS: kind.experts,
            Place.INDEXER: kind.indexer,
        }
        return tuple(addition for addition in self.additions if there[addition.place])

    @property
    def trains_ends(self) -> tuple[bool, bool]:
        """Whether the embedding is trained, and the output layer."""
        return not (self.frozen_layers or self.adapter_rank), not self.adapter_rank

    @property
    def last_width(self) -> int:
        """Numbers of a token that the last norm and the output layer read."""
        return self.output_width or self.hidden

    @property
    def query_rank(self) -> int:
        """The width that queries go through; 0: they are projected at once."""
        if self.narrow_ends is not None:
            return self.narrow_ends.query_rank
        return self.latent.query_rank if self.latent is not None else 0

    @property
    def image_tokens(self) -> int:
        """Tokens of images beside a sequence."""
        return 0 if self.images is None else self.images.tokens

    @property
    def read_width(self) -> int:
        """The width that queries, keys and values are projected from."""
        return self.attention_width or self.hidden

    @property
    def value_width(self) -> int:
        """The width of a head's values."""
        return self.value_dim or self.head_dim

    def norms_of(self, kind: LayerKind) -> int:
        """Return the norms of a layer over the hidden size: half of them where it only mixes, or only transforms."""
        return self.norms.of_layer if kind.mixes and kind.transforms else -(-self.norms.of_layer // 2)

    @property
    def further_kind(self) -> LayerKind:
        """The kind of the blocks that predict further tokens."""
        kind = DENSE if self.experts is None or self.further_mlp else WITH_EXPERTS
        return replace(kind, indexed=True, indexer=True) if self.indexed_layers else kind

    def _has_experts(self, layer: int) -> bool:
        experts = self.experts
        if experts is None or layer < experts.dense_layers or layer in experts.mlp_layers:
            return False
        return layer % experts.every == experts.every - 1


@lru_cache(maxsize=64)
def _kinds(model: Transformer) -> tuple[LayerKind, ...]:
    """Return the kind of every body layer, which a choice of degrees asks for thousands of times."""
    return tuple(model.kind(layer) for layer in range(model.layers))
