"""The model of ``evenflow predict``: a configuration, or plain numbers."""

from evenflow.cli.shared.model_config import config_path, read_config
from evenflow.cli.verbs.predict.predict_options import PredictOptions
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.transformer import Experts
from evenflow.profiles.transformer.config_file import transformer_of_config
from evenflow.profiles.transformer.numbers import Described, Numbers, described

_NEEDED = ("hidden", "layers", "heads", "vocab")
"""Options without which plain numbers are no model."""
_OF_EXPERTS = ("active_experts", "expert_ffn")
_OTHERS = ("gated_mlp", "kv_heads", "head_dim", "ffn", "experts", *_OF_EXPERTS)
_ACTIVE_EXPERTS = 2


def model_of(asked: PredictOptions) -> Described:
    """Return the model; raises InputError for numbers beside a configuration, and for those that are missing."""
    if asked.model is None:
        return described(_numbers(asked))
    for field in (*_NEEDED, *_OTHERS):
        value = getattr(asked, field)
        if value:
            rule = _("must not be given beside --model, which says it")
            shown = None if value is True else value
            raise InputError(value=shown, rule=rule, place=_option(field), remedy=_("leave one of the two out"))
    config = read_config(config_path(asked.model))
    return transformer_of_config(config.fields, name=config.name)


def _numbers(asked: PredictOptions) -> Numbers:
    hidden, layers, heads, vocabulary = (_given(asked, field) for field in _NEEDED)
    gated = True if asked.gated_mlp else None if asked.experts else False
    return Numbers(
        hidden=hidden,
        layers=layers,
        heads=heads,
        vocabulary=vocabulary,
        kv_heads=asked.kv_heads,
        head_dim=asked.head_dim,
        ffn=asked.ffn,
        gated=gated,
        positions=asked.sequence if gated is False else 0,
        experts=_experts(asked),
    )


def _given(asked: PredictOptions, field: str) -> int:
    value: int | None = getattr(asked, field)
    if value is None:
        rule = _("must be given where no --model is")
        raise InputError(value=None, rule=rule, place=_option(field), remedy=_("add it, or --model CONFIG.json"))
    return value


def _experts(asked: PredictOptions) -> Experts | None:
    if asked.experts is None:
        for field in _OF_EXPERTS:
            if getattr(asked, field) is not None:
                rule = _("must come with --experts")
                raise InputError(value=getattr(asked, field), rule=rule, place=_option(field))
        return None
    ffn = asked.expert_ffn or asked.ffn
    if ffn is None:
        raise InputError(value=None, rule=_("must be given with --experts"), place="--expert-ffn")
    return Experts(count=asked.experts, active=asked.active_experts or min(_ACTIVE_EXPERTS, asked.experts), ffn=ffn)


def _option(field: str) -> str:
    return f"--{field.replace('_', '-')}"
