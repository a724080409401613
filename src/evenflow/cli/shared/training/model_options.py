"""The options that describe a model: a configuration, or plain numbers."""

from dataclasses import dataclass, field, replace
from pathlib import Path

from evenflow import ranges
from evenflow.asking import Metadata, asked, optional
from evenflow.cli.shared.model_config import config_path, read_config
from evenflow.cli.shared.training.encoder_options import EncoderOptions, with_encoders
from evenflow.cli.shared.training.sections import MODEL, STEP
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.transformer import Experts
from evenflow.profiles.transformer.config_file import transformer_of_config
from evenflow.profiles.transformer.numbers import Described, Numbers, described

EXPERT_CAPACITY = asked(
    ranges.EXPERT_CAPACITY,
    option="--expert-capacity",
    section=MODEL,
    metavar="FACTOR",
    help="Times an equal share of a device's tokens that an expert takes at most; others are dropped.  "
    "[default: no limit]",
)
FREEZE = asked(
    ranges.MODEL_LAYERS,
    option="--freeze",
    section=MODEL,
    metavar="N",
    help="First layers that are not trained, nor the embedding: they have no backward and no state.  "
    "[default: all are trained]",
)
LORA = asked(
    ranges.MODEL_SIZE,
    option="--lora",
    section=MODEL,
    metavar="RANK",
    help="Width of adapters (LoRA) that are trained beside every product of the layers; nothing else is trained.  "
    "[default: none]",
)
RECOMPUTE_SETS = asked(
    option="--recompute-sets",
    section=STEP,
    metavar="SETS|best",
    help="Sets of modules that layers may compute again, each a recompute kind: layernorm,moe_act+layernorm; behind "
    "offload_ modules that move to the host; best for those that no others beat.  [default: "
    "select, which is core attention]",
)
HALF_BLOCKS = asked(
    option="--half-blocks",
    section=MODEL,
    help="Attention and what follows it, an MLP or experts, are layers of their own, so that a stage may begin between "
    "them.  [default: only for a framework that counts them so]",
)
_NEEDED = ("hidden", "layers", "heads", "vocab")
"""Options without which plain numbers are no model."""
_OF_EXPERTS = ("active_experts", "expert_ffn")
_OTHERS = ("gated_mlp", "kv_heads", "head_dim", "ffn", "experts", *_OF_EXPERTS)
_ACTIVE_EXPERTS = 2


def _size(option: str, help_text: str, within: ranges.Range = ranges.MODEL_SIZE) -> Metadata:
    return asked(within, option=option, section=MODEL, help=help_text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """What was given of the model."""

    model: str | None = optional(
        "--model",
        section=MODEL,
        metavar="CONFIG.json",
        help="Configuration of a decoder, as transformers writes it, or the folder that has it.",
    )
    hidden: int | None = field(default=None, metadata=_size("--hidden", "Hidden size."))
    layers: int | None = field(default=None, metadata=_size("--layers", "Layers.", within=ranges.MODEL_LAYERS))
    heads: int | None = field(default=None, metadata=_size("--heads", "Attention heads."))
    vocab: int | None = field(default=None, metadata=_size("--vocab", "Words of the vocabulary."))
    gated_mlp: bool = optional(
        "--gated-mlp",
        default=False,
        section=MODEL,
        help="The MLP is gated, as in Llama: three matrices, no biases; else as in GPT.",
    )
    kv_heads: int | None = field(
        default=None, metadata=_size("--kv-heads", "Heads of keys and values.  [default: --heads]")
    )
    head_dim: int | None = field(
        default=None, metadata=_size("--head-dim", "Width of a head.  [default: --hidden / --heads]")
    )
    ffn: int | None = field(
        default=None, metadata=_size("--ffn", "Width of the MLP.  [default: 4 x --hidden, gated 8/3 x]")
    )
    experts: int | None = field(
        default=None, metadata=_size("--experts", "Experts in place of the MLP.  [default: none]")
    )
    active_experts: int | None = field(
        default=None, metadata=_size("--active-experts", "Experts that a token goes to.  [default: 2]")
    )
    expert_ffn: int | None = field(
        default=None, metadata=_size("--expert-ffn", "Width of an expert.  [default: --ffn]")
    )
    expert_capacity: float | None = field(default=None, metadata=EXPERT_CAPACITY)
    freeze: int | None = field(default=None, metadata=FREEZE)
    lora: int | None = field(default=None, metadata=LORA)
    encoders: EncoderOptions = field(metadata=asked(group=EncoderOptions))

    @property
    def file(self) -> Path | None:
        """The configuration that is read; None for plain numbers."""
        return None if self.model is None else Path(config_path(self.model))

    def described(self, sequence: int) -> Described:
        """Return the model; one as GPT learns positions, for `sequence` tokens.

        Raises:
            InputError: numbers beside a configuration, those that are missing, or a file that cannot be read.
        """
        found = with_encoders(self._described(sequence), self.encoders)
        return with_trained(with_capacity(found, self.expert_capacity), self.freeze, self.lora)

    def _described(self, sequence: int) -> Described:
        if self.model is None:
            return described(self._numbers(sequence))
        for name in (*_NEEDED, *_OTHERS):
            value = getattr(self, name)
            if value:
                rule = _("must not be given beside --model, which says it")
                shown = None if value is True else value
                raise InputError(value=shown, rule=rule, place=_option(name), remedy=_("leave one of the two out"))
        config = read_config(config_path(self.model))
        return transformer_of_config(config.fields, name=config.name)

    def _numbers(self, sequence: int) -> Numbers:
        hidden, layers, heads, vocabulary = (self._given(name) for name in _NEEDED)
        gated = True if self.gated_mlp else None if self.experts else False
        return Numbers(
            hidden=hidden,
            layers=layers,
            heads=heads,
            vocabulary=vocabulary,
            kv_heads=self.kv_heads,
            head_dim=self.head_dim,
            ffn=self.ffn,
            gated=gated,
            positions=sequence if gated is False else 0,
            experts=self._experts(),
        )

    def _given(self, name: str) -> int:
        value: int | None = getattr(self, name)
        if value is None:
            rule = _("must be given where no --model is")
            raise InputError(rule=rule, place=_option(name), remedy=_("add it, or --model CONFIG.json"))
        return value

    def _experts(self) -> Experts | None:
        if self.experts is None:
            for name in _OF_EXPERTS:
                if getattr(self, name) is not None:
                    rule = _("must come with --experts")
                    raise InputError(value=getattr(self, name), rule=rule, place=_option(name))
            return None
        ffn = self.expert_ffn or self.ffn
        if ffn is None:
            raise InputError(rule=_("must be given with --experts"), place="--expert-ffn")
        active = self.active_experts or min(_ACTIVE_EXPERTS, self.experts)
        return Experts(count=self.experts, active=active, ffn=ffn)


def with_capacity(transformer: Described, factor: float | None) -> Described:
    """Return the model whose experts take at most `factor` times their equal share; None: as many tokens as come."""
    if factor is None:
        return transformer
    model = transformer.model
    if model.experts is None:
        raise InputError(
            value=factor,
            rule=_("must not be given for a model without experts"),
            place="--expert-capacity",
            remedy=_("leave it out"),
        )
    experts = replace(model.experts, capacity_factor=factor)
    return replace(transformer, model=replace(model, experts=experts))


def with_trained(transformer: Described, freeze: int | None, lora: int | None) -> Described:
    """Return the model of which only some is trained: not the first layers, or adapters alone; None: all.

    Raises:
        InputError: as many frozen layers as the model has, or more.
    """
    model = transformer.model
    if freeze is not None and freeze >= model.layers:
        rule = _("must be fewer than the {count} layers", count=model.layers)
        raise InputError(value=freeze, rule=rule, place="--freeze", remedy=_("leave some to train"))
    trained = replace(model, frozen_layers=freeze or 0, adapter_rank=lora or 0)
    notes = []
    if freeze:
        notes.append(_("the embedding and the first {count} layers are not trained", count=freeze))
    if lora:
        notes.append(_("only adapters are trained, {rank} wide, beside every product of the layers", rank=lora))
    return replace(transformer, model=trained, notes=(*transformer.notes, *notes))


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
