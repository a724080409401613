"""The model of ``evenflow predict`` as plain numbers."""

from evenflow.cli.verbs.predict.predict_options import PredictOptions
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.transformer import EVERY_BIAS, Biases, Experts, Transformer

NUMBERS = ("hidden", "layers", "heads", "vocab")
"""Options without which a model is not described."""
_OTHERS = ("gated_mlp", "kv_heads", "ffn", "experts", "active_experts", "expert_ffn")
_OF_EXPERTS = ("active_experts", "expert_ffn")
_ACTIVE_EXPERTS = 2
_NAME = "model"


def check_alone(asked: PredictOptions) -> None:
    """Refuse plain numbers beside ``--model``, which has them all."""
    for field in (*NUMBERS, *_OTHERS):
        value = getattr(asked, field)
        if value:
            rule = _("must not be given beside --model, which says it")
            shown = None if value is True else value
            raise InputError(value=shown, rule=rule, place=_option(field), remedy=_("leave one of the two out"))


def model_of_numbers(asked: PredictOptions) -> Transformer:
    """Return the model; raises InputError for numbers that are missing or do not go together."""
    hidden, layers, heads, vocabulary = (_given(asked, field) for field in NUMBERS)
    if hidden % heads:
        rule = _("must be a multiple of the {heads} heads", heads=heads)
        raise InputError(value=hidden, rule=rule, place="--hidden")
    is_gated = asked.gated_mlp
    ffn = asked.ffn or (_round_up(8 * hidden / 3) if is_gated else 4 * hidden)
    return Transformer(
        hidden=hidden,
        layers=layers,
        heads=heads,
        kv_heads=asked.kv_heads or heads,
        head_dim=hidden // heads,
        ffn=ffn,
        vocabulary=vocabulary,
        gated=is_gated,
        tied=not is_gated,
        positions=0 if is_gated else asked.sequence,
        biases=Biases() if is_gated else EVERY_BIAS,
        experts=_experts(asked, ffn),
        name=_NAME,
    )


def _given(asked: PredictOptions, field: str) -> int:
    value: int | None = getattr(asked, field)
    if value is None:
        rule = _("must be given where no --model is")
        raise InputError(value=None, rule=rule, place=_option(field), remedy=_("add it, or --model CONFIG.json"))
    return value


def _experts(asked: PredictOptions, ffn: int) -> Experts | None:
    if asked.experts is None:
        for field in _OF_EXPERTS:
            if getattr(asked, field) is not None:
                rule = _("must come with --experts")
                raise InputError(value=getattr(asked, field), rule=rule, place=_option(field))
        return None
    active = asked.active_experts or min(_ACTIVE_EXPERTS, asked.experts)
    if active > asked.experts:
        rule = _("must be at most the {count} experts", count=asked.experts)
        raise InputError(value=active, rule=rule, place="--active-experts")
    return Experts(count=asked.experts, active=active, ffn=asked.expert_ffn or ffn)


def _round_up(width: float) -> int:
    """Return the next multiple of 256, as Llama has it."""
    return -(-round(width) // 256) * 256


def _option(field: str) -> str:
    return f"--{field.replace('_', '-')}"
