"""The options that describe a model: a configuration, or plain numbers."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from evenflow import ranges
from evenflow.cli.shared import options
from evenflow.cli.shared.model_config import config_path, read_config
from evenflow.cli.shared.numbers import Number
from evenflow.cli.shared.option_groups import grouped
from evenflow.cli.shared.training.sections import of_model
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.transformer import Experts, Transformer
from evenflow.profiles.transformer.config_file import transformer_of_config
from evenflow.profiles.transformer.numbers import Described, Numbers, described

_OPTIONS = (
    of_model(
        "--model",
        metavar="CONFIG.json",
        help="Configuration of a decoder, as transformers writes it, or the folder that has it.",
    ),
    of_model("--hidden", type=options.MODEL_SIZE, help="Hidden size."),
    of_model("--layers", type=Number(ranges.MODEL_LAYERS), help="Layers."),
    of_model("--heads", type=options.MODEL_SIZE, help="Attention heads."),
    of_model("--vocab", type=options.MODEL_SIZE, help="Words of the vocabulary."),
    of_model(
        "--gated-mlp", is_flag=True, help="The MLP is gated, as in Llama: three matrices, no biases; else as in GPT."
    ),
    of_model("--kv-heads", type=options.MODEL_SIZE, help="Heads of keys and values.  [default: --heads]"),
    of_model("--head-dim", type=options.MODEL_SIZE, help="Width of a head.  [default: --hidden / --heads]"),
    of_model("--ffn", type=options.MODEL_SIZE, help="Width of the MLP.  [default: 4 x --hidden, gated 8/3 x]"),
    of_model("--experts", type=options.MODEL_SIZE, help="Experts in place of the MLP.  [default: none]"),
    of_model("--active-experts", type=options.MODEL_SIZE, help="Experts that a token goes to.  [default: 2]"),
    of_model("--expert-ffn", type=options.MODEL_SIZE, help="Width of an expert.  [default: --ffn]"),
    of_model(
        "--expert-capacity",
        type=Number(ranges.EXPERT_CAPACITY),
        metavar="FACTOR",
        help="Times an equal share of a device's tokens that an expert takes at most; others are dropped.  "
        "[default: no limit]",
    ),
)
_NEEDED = ("hidden", "layers", "heads", "vocab")
"""Options without which plain numbers are no model."""
_OF_EXPERTS = ("active_experts", "expert_ffn")
_OTHERS = ("gated_mlp", "kv_heads", "head_dim", "ffn", "experts", *_OF_EXPERTS)
_ACTIVE_EXPERTS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """What was given of the model."""

    model: str | None
    hidden: int | None
    layers: int | None
    heads: int | None
    vocab: int | None
    gated_mlp: bool
    kv_heads: int | None
    head_dim: int | None
    ffn: int | None
    experts: int | None
    active_experts: int | None
    expert_ffn: int | None
    expert_capacity: float | None

    @property
    def file(self) -> Path | None:
        """The configuration that is read; None for plain numbers."""
        return None if self.model is None else Path(config_path(self.model))

    def described(self, sequence: int) -> Described:
        """Return the model; one as GPT learns positions, for `sequence` tokens.

        Raises:
            InputError: numbers beside a configuration, those that are missing, or a file that cannot be read.
        """
        found = self._described(sequence)
        return replace(found, model=self._with_capacity(found.model))

    def _described(self, sequence: int) -> Described:
        if self.model is None:
            return described(self._numbers(sequence))
        for field in (*_NEEDED, *_OTHERS):
            value = getattr(self, field)
            if value:
                rule = _("must not be given beside --model, which says it")
                shown = None if value is True else value
                raise InputError(value=shown, rule=rule, place=_option(field), remedy=_("leave one of the two out"))
        config = read_config(config_path(self.model))
        return transformer_of_config(config.fields, name=config.name)

    def _with_capacity(self, model: Transformer) -> Transformer:
        if self.expert_capacity is None:
            return model
        if model.experts is None:
            raise InputError(
                value=self.expert_capacity,
                rule=_("must not be given for a model without experts"),
                place="--expert-capacity",
                remedy=_("leave it out"),
            )
        return replace(model, experts=replace(model.experts, capacity_factor=self.expert_capacity))

    def _numbers(self, sequence: int) -> Numbers:
        hidden, layers, heads, vocabulary = (self._given(field) for field in _NEEDED)
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

    def _given(self, field: str) -> int:
        value: int | None = getattr(self, field)
        if value is None:
            rule = _("must be given where no --model is")
            raise InputError(value=None, rule=rule, place=_option(field), remedy=_("add it, or --model CONFIG.json"))
        return value

    def _experts(self) -> Experts | None:
        if self.experts is None:
            for field in _OF_EXPERTS:
                if getattr(self, field) is not None:
                    rule = _("must come with --experts")
                    raise InputError(value=getattr(self, field), rule=rule, place=_option(field))
            return None
        ffn = self.expert_ffn or self.ffn
        if ffn is None:
            raise InputError(value=None, rule=_("must be given with --experts"), place="--expert-ffn")
        active = self.active_experts or min(_ACTIVE_EXPERTS, self.experts)
        return Experts(count=self.experts, active=active, ffn=ffn)


def model_options(command: Callable[..., int]) -> Callable[..., int]:
    """Add the options to a command, which gets them as `described`."""
    return grouped(command, _OPTIONS, name="described", made=ModelOptions)


def _option(field: str) -> str:
    return f"--{field.replace('_', '-')}"
