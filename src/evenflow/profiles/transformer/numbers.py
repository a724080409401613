"""Completes a transformer from a few sizes: missing sizes follow from the rest, with a note."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from evenflow.errors import InputError
from evenflow.language import _, _n
from evenflow.predict.layer_parts import Addition, ImageAttention, Indexer, Loop, NarrowEnds
from evenflow.predict.transformer import (
    EVERY_BIAS,
    Biases,
    Experts,
    LatentAttention,
    LayersWithState,
    Modality,
    Norms,
    OwnSizes,
    Patches,
    SharedBlocks,
    Transformer,
)
from evenflow.profiles.transformer.config_encoders import Encoder

_LLAMA_MULTIPLE = 256
"""Of which the width of a gated MLP is a multiple, as in Llama."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Described:
    """A transformer, and what was assumed or left out to get it."""

    model: Transformer
    notes: tuple[str, ...] = ()
    encoders: Mapping[Modality, Encoder | InputError] = field(default_factory=dict)
    """The encoders that belong to it, which `model` has only once there are images or sounds; or why one is not read.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """The known sizes of a transformer; those that are None follow from the rest."""

    hidden: int
    layers: int
    heads: int
    vocabulary: int
    kv_heads: int | None = None
    head_dim: int | None = None
    ffn: int | None = None
    gated: bool | None = None
    tied: bool | None = None
    biases: Biases | None = None
    positions: int | None = None
    experts: Experts | None = None
    latent: LatentAttention | None = None
    norms: Norms = field(default_factory=Norms)
    sinks: bool = False
    window: int = 0
    unwindowed_layers: tuple[int, ...] = ()
    states: LayersWithState = field(default_factory=LayersWithState)
    output_gate: bool = False
    value_dim: int = 0
    own: tuple[OwnSizes | None, ...] = ()
    narrow_ends: NarrowEnds | None = None
    attention_experts: bool = False
    indexer: Indexer | None = None
    indexed_layers: tuple[int, ...] = ()
    indexer_layers: tuple[int, ...] = ()
    additions: tuple[Addition, ...] = ()
    head_additions: tuple[Addition, ...] = ()
    tail_additions: tuple[Addition, ...] = ()
    repeats: int = 1
    shared: SharedBlocks | None = None
    images: ImageAttention | None = None
    loops: tuple[Loop, ...] = ()
    streams: int = 1
    carried: int = 0
    handed_on: int = 0
    reversible: bool = False
    output_width: int = 0
    fixed_sequence: int = 0
    patches: Patches | None = None
    bidirectional: bool = False
    distances: int = 0
    predicted_tokens: int = 0
    further_mlp: bool = False
    dropout: bool = False
    name: str = "model"


def described(numbers: Numbers) -> Described:
    """Return the transformer of `numbers`.

    A plain model is a GPT: two matrices in its MLP, as wide as four hidden sizes, biases, and an output layer that is
    the embedding's table. With a gated MLP it is a Llama: 8/3 hidden sizes, no biases, and an output layer of its own.

    Raises:
        InputError: sizes that no transformer has, or a width of heads that does not follow.
    """
    notes: list[str] = []
    gated = numbers.gated
    if gated is None:
        gated = numbers.experts is not None
        both = _("the MLP has three matrices (gated)"), _("the MLP has two matrices (not gated)")
        notes.append(both[0] if gated else both[1])
    head_dim = numbers.head_dim
    if head_dim is None and numbers.latent is None:
        head_dim = _width_of_head(numbers)
        notes.append(_("a head is {width} wide: the hidden size by the heads", width=head_dim))
    ffn = numbers.ffn
    if ffn is None:
        ffn, note = _width_of_mlp(numbers, gated)
        notes += [note] if note else []
    tied = numbers.tied
    if tied is None:
        tied = not gated
        both = _("the output layer is the table of the embedding"), _("the output layer has a table of its own")
        notes.append(both[0] if tied else both[1])
    kv_heads = numbers.kv_heads
    if kv_heads is None:
        kv_heads = numbers.heads
        if numbers.latent is None:
            notes.append(_("every head has keys and values of its own"))
    biases = numbers.biases
    if biases is None:
        biases = Biases() if gated else EVERY_BIAS
    latent = numbers.latent
    model = Transformer(
        hidden=numbers.hidden, layers=numbers.layers, heads=numbers.heads, kv_heads=kv_heads,
        head_dim=head_dim or (latent.plain_dim + latent.rotary_dim if latent else 1), ffn=ffn,
        vocabulary=numbers.vocabulary, gated=gated, tied=tied, positions=numbers.positions or 0, biases=biases,
        norms=numbers.norms, sinks=numbers.sinks, experts=numbers.experts, latent=latent, window=numbers.window,
        unwindowed_layers=numbers.unwindowed_layers, states=numbers.states, output_gate=numbers.output_gate,
        value_dim=numbers.value_dim, own=numbers.own, narrow_ends=numbers.narrow_ends,
        attention_experts=numbers.attention_experts, indexer=numbers.indexer,
        indexed_layers=numbers.indexed_layers, indexer_layers=numbers.indexer_layers, additions=numbers.additions,
        head_additions=numbers.head_additions, tail_additions=numbers.tail_additions, repeats=numbers.repeats,
        shared=numbers.shared, images=numbers.images, loops=numbers.loops,
        streams=numbers.streams, carried=numbers.carried, handed_on=numbers.handed_on,
        reversible=numbers.reversible, output_width=numbers.output_width,
        fixed_sequence=numbers.fixed_sequence,
        patches=numbers.patches, bidirectional=numbers.bidirectional, distances=numbers.distances,
        predicted_tokens=numbers.predicted_tokens,
        further_mlp=numbers.further_mlp,
        dropout=numbers.dropout, name=numbers.name,
    )  # fmt: skip
    return Described(model=model, notes=tuple(notes))


def notes_on(numbers: Numbers) -> list[str]:
    """Return what is to be known of a model: blocks for further tokens, shared ones, and loops."""
    notes = []
    if numbers.predicted_tokens:
        notes.append(
            _n(
                "{count} further token is predicted, by a block of its own (multi-token prediction)",
                "{count} further tokens are predicted, each by a block of its own (multi-token prediction)",
                count=numbers.predicted_tokens,
            )
        )
    if numbers.shared is not None:
        notes.append(
            _n(
                "{layers} layers share {count} block of attention and MLP: every rank of a pipeline holds it, and the "
                "ranks add up its gradients",
                "{layers} layers share {count} blocks of attention and MLP: every rank of a pipeline holds them, and "
                "the ranks add up their gradients",
                count=numbers.shared.count,
                layers=len(numbers.shared.layers),
            )
        )
    for loop in numbers.loops:
        sizes = {"first": loop.first, "last": loop.end - 1, "count": loop.passes + loop.unkept, "kept": loop.passes}
        if loop.unkept:
            notes.append(
                _(
                    "tokens go through the layers {first} to {last}, counted from 0, {count} times, of which {kept} "
                    "have gradients; they stay in one stage",
                    **sizes,
                )
            )
        else:
            notes.append(
                _(
                    "tokens go through the layers {first} to {last}, counted from 0, {count} times; they stay in one "
                    "stage",
                    **sizes,
                )
            )
    if any(loop.inner for loop in numbers.loops):
        notes.append(_("these loops turn in each other: all of their layers stay in one stage"))
    return notes


def _width_of_head(numbers: Numbers) -> int:
    if numbers.heads < 1 or numbers.hidden % numbers.heads:
        raise InputError(
            value=numbers.heads,
            rule=_("must divide the hidden size ({hidden}), or their width must be given", hidden=numbers.hidden),
            place=_("heads"),
            remedy=_("give the width of a head"),
        )
    return numbers.hidden // numbers.heads


def _width_of_mlp(numbers: Numbers, gated: bool) -> tuple[int, str]:
    experts = numbers.experts
    if experts is not None:
        some_lack = experts.dense_layers or experts.every > 1 or experts.mlp_layers
        return experts.ffn, _("layers without experts have an MLP as wide as one of them") if some_lack else ""
    if not gated:
        width = 4 * numbers.hidden
        return width, _("the MLP is {width} wide: four times the hidden size", width=width)
    least = -(-8 * numbers.hidden // 3)
    width = -(-least // _LLAMA_MULTIPLE) * _LLAMA_MULTIPLE
    return width, _("the MLP is {width} wide: 8/3 of the hidden size, rounded up", width=width)
