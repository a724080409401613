"""A model of Hugging Face transformers from its config.json, on the meta device: no memory for its weights."""

from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM
from transformers.utils import logging

from evenflow.cluster import Dtype
from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow.model.config_sizes import check_config_sizes
from evenflow.profiles.transformer.field_names import refuse_misspelt
from evenflow_torch.models.decoder_row import DECODER_PARTS, missing_part
from evenflow_torch.models.experts.shared_out import share_out_experts
from evenflow_torch.models.families.table import FAMILIES, ModelTask

_DIVIDED = (
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "vocab_size",
)
"""Sizes that tensor parallelism divides, where a configuration has them."""
_NOT_SIZES = ("model_type", "auto_map", "dtype", "torch_dtype")
"""Fields of a config.json that are given otherwise, or name code of the model's own."""
_CLASSES = {
    ModelTask.NEXT_TOKEN: AutoModelForCausalLM,
    ModelTask.TARGET_TOKENS: AutoModelForSeq2SeqLM,
    ModelTask.MASKED_TOKENS: AutoModelForMaskedLM,
}
"""The class that builds a model for a task."""


def build_decoder(
    config: Fields, *, dtype: Dtype, tensor_parallel: int = 1, expert_parallel: int = 1, **options: Any
) -> Any:
    """Return the model that `config` describes, in training mode, on the meta device.

    With `tensor_parallel` devices it is the share of one of them, and with `expert_parallel` devices it has one's
    experts. `options` go to transformers.

    Raises:
        InputError: a model type that transformers does not know as a decoder, values it refuses, a model built
            otherwise, sizes that do not divide by `tensor_parallel`, experts that do not by `expert_parallel`.
    """
    model = _built(config, ModelTask.NEXT_TOKEN, dtype=dtype, tensor_parallel=tensor_parallel, **options)
    _check_parts(model, config)
    if expert_parallel > 1:
        share_out_experts(model, expert_parallel, config)
    return model


def build_family_model(config: Fields, *, dtype: Dtype, **options: Any) -> Any:
    """Return the model of one of `FAMILIES` that `config` describes, in training mode, on the meta device.

    Raises:
        InputError: another model type, values that transformers refuses, no layers.
    """
    model_type = config.text("model_type")
    if model_type not in FAMILIES:
        raise InputError(
            value=model_type,
            rule=_("must be one of {names}", names=", ".join(sorted(FAMILIES))),
            place=config.place("model_type"),
        )
    family = FAMILIES[model_type]
    model = _built(config, family.task, dtype=dtype, **options)
    for stack in family.stacks:
        if not len(model.get_submodule(f"{stack.path}.{stack.layers}")):
            raise _no_layers(config)
    return model


def _built(config: Fields, task: ModelTask, *, dtype: Dtype, tensor_parallel: int = 1, **options: Any) -> Any:
    check_config_sizes(config)
    refuse_misspelt(config)
    model_type = config.text("model_type")
    logging.set_verbosity_error()
    try:
        sizes = {key: value for key, value in config.values.items() if key not in _NOT_SIZES}
        described = AutoConfig.for_model(model_type, **sizes)
        if tensor_parallel > 1:
            _share(described, tensor_parallel, config)
        with torch.device("meta"):
            model = _CLASSES[task].from_config(described, dtype=getattr(torch, dtype), **options)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever transformers finds wrong with a user's file
        raise refused(error, config) from None
    return model.train()


def refused(error: Exception, config: Fields) -> InputError:
    """Return what transformers says about a configuration as one line."""
    model_type = config.text("model_type")
    reason = " ".join(str(error).split())
    if "Unrecognized model identifier" in reason or "Unrecognized configuration class" in reason:
        return InputError(
            value=model_type,
            rule=_("must be a decoder that transformers knows, such as llama, mixtral, qwen3, deepseek_v3"),
            place=config.place("model_type"),
            remedy=_("profile the layers of a model with code of its own from Python"),
        )
    shortened = reason if len(reason) < 300 else reason[:297] + "..."
    return InputError(
        rule=_(
            "must describe a {model_type} that transformers can build: {shortened}",
            model_type=model_type,
            shortened=shortened,
        ),
        place=config.place(),
    )


def _check_parts(model: Any, config: Fields) -> None:
    missing = missing_part(model)
    if missing is not None:
        raise InputError(
            value=config.text("model_type"),
            rule=_(
                "must be a decoder with {names}; this one has no {missing}",
                names=", ".join(DECODER_PARTS),
                missing=missing,
            ),
            place=config.place("model_type"),
            remedy=_("profile its layers from Python: evenflow.profile"),
        )
    if not len(model.model.layers):
        raise _no_layers(config)


def _no_layers(config: Fields) -> InputError:
    return InputError(
        value=0,
        rule=_("must describe at least one layer"),
        place=config.place(),
        remedy=_("check num_hidden_layers"),
    )


def _share(described: Any, tensor_parallel: int, config: Fields) -> None:
    """Make `described` the model of one device; key and value heads fewer than devices are repeated."""
    if not getattr(described, "head_dim", None):
        described.head_dim = described.hidden_size // described.num_attention_heads
    described.pad_token_id = None  # it may be in another device's share of the vocabulary
    for key in _DIVIDED:
        size = getattr(described, key, None)
        if not size:
            continue
        if key == "num_key_value_heads" and tensor_parallel % size == 0:
            share = 1
        elif size % tensor_parallel:
            raise InputError(
                value=size,
                rule=_(
                    "must divide by the {tensor_parallel} devices of --tensor-parallel", tensor_parallel=tensor_parallel
                ),
                place=config.place(key),
            )
        else:
            share = size // tensor_parallel
        setattr(described, key, share)
