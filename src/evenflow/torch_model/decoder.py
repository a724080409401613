"""A decoder of Hugging Face transformers from its config.json: the parts of the model, without memory for its weights.

    HEAD   model.embed_tokens
    BODY   model.layers, in order
    TAIL   model.norm, lm_head and the loss

The model is built on the meta device. What its layers get beside hidden states (position embeddings, masks) is what the
model itself gives them: its forward runs once, on the meta device, with layers that only note their inputs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM, DynamicCache
from transformers.utils import logging

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.torch_model.parts import Part

DTYPES: Mapping[str, torch.dtype] = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
_DIVIDED = (
    "num_attention_heads",
    "num_key_value_heads",
    "intermediate_size",
    "moe_intermediate_size",
    "shared_expert_intermediate_size",
    "vocab_size",
)
"""What tensor parallelism divides, where a configuration has it."""
_PARTS = ("model.embed_tokens", "model.layers", "model.norm", "lm_head")


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """A decoder in parts."""

    head: Part
    layers: tuple[Part, ...]
    tail: Part
    num_parameters: int
    """Of the whole model; tied weights count once."""
    notes: tuple[str, ...] = ()
    """What a user should know of the parts."""


class Tail(nn.Module):
    """The end of a decoder: norm, logits, loss."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.norm, self.lm_head = model.model.norm, model.lm_head
        self._loss, self._vocabulary = model.loss_function, model.config.vocab_size

    def forward(self, hidden: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss, a scalar, of hidden states [batch, sequence, width] for labels [batch, sequence]."""
        loss = self._loss(logits=self.lm_head(self.norm(hidden)), labels=labels, vocab_size=self._vocabulary)
        assert isinstance(loss, torch.Tensor)
        return loss


def read_decoder(
    config: Fields, *, sequence: int, microbatch: int, dtype: torch.dtype, tensor_parallel: int = 1
) -> Decoder:
    """The parts of the model that `config` describes, for `microbatch` sequences of `sequence` tokens.

    With `tensor_parallel` devices, those of one of them: an equal share of heads, MLP widths and vocabulary, all of the
    hidden states. [Megatron-LM, arXiv:1909.08053, §3]

    Raises:
        InputError: a model type that transformers does not know as a decoder, values it refuses, a model built
            otherwise, sizes that do not divide by `tensor_parallel`.
    """
    model = _build(config, dtype, tensor_parallel)
    tokens = torch.zeros((microbatch, sequence), dtype=torch.long, device="meta")
    inputs = _inputs_of_layers(model, tokens, config)
    limit = model.config.vocab_size
    layers = tuple(
        Part(
            name=f"{type(layer).__name__}.{index}",
            module=layer,
            inputs=(hidden, *others),
            named_inputs=named,
            index_limit=sequence,
        )
        for index, (layer, (hidden, others, named)) in enumerate(zip(model.model.layers, inputs, strict=True))
    )
    hidden = inputs[-1][0]
    head, tail = model.model.embed_tokens, Tail(model)
    return Decoder(
        head=Part(name="embed_tokens", module=head, inputs=(tokens,), index_limit=limit),
        layers=layers,
        tail=Part(name="norm + lm_head + loss", module=tail, inputs=(hidden, tokens), index_limit=limit),
        num_parameters=model.num_parameters(),
        notes=_notes(tied=model.lm_head.weight is head.weight, tensor_parallel=tensor_parallel),
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
                value=size, rule=f"divides by {tensor_parallel} devices (--tensor-parallel)", place=config.place(key)
            )
        else:
            share = size // tensor_parallel
        setattr(described, key, share)


def _notes(*, tied: bool, tensor_parallel: int) -> tuple[str, ...]:
    notes = []
    if tied:
        notes.append("the embedding table is tied to lm_head: the first and the last stage each hold a copy")
    if tensor_parallel > 1:
        notes.append(f"communication between the {tensor_parallel} devices of a layer is not in the times")
    return tuple(notes)


def _build(config: Fields, dtype: torch.dtype, tensor_parallel: int) -> Any:
    """The model on the meta device."""
    model_type = config.text("model_type")
    values = {key: value for key, value in config.values.items() if key not in ("model_type", "auto_map")}
    logging.set_verbosity_error()
    try:
        described = AutoConfig.for_model(model_type, **values)
        if tensor_parallel > 1:
            _share(described, tensor_parallel, config)
        with torch.device("meta"):
            model = AutoModelForCausalLM.from_config(described, dtype=dtype)
    except InputError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever transformers finds wrong with a user's file
        raise _refused(model_type, error, config) from None
    for part in _PARTS:
        try:
            model.get_submodule(part)
        except AttributeError:
            raise InputError(
                value=model_type,
                rule=f"a decoder with {', '.join(_PARTS)}; this one has no {part}",
                place=config.place("model_type"),
                remedy="profile its layers from Python: evenflow.profiles.from_model.profile",
            ) from None
    if not len(model.model.layers):
        raise InputError(
            value=0, rule="a model has at least one layer", place=config.place(), remedy="check num_hidden_layers"
        )
    return model.train()


def _refused(model_type: str, error: Exception, config: Fields) -> InputError:
    """What transformers says about a configuration, as one line."""
    reason = " ".join(str(error).split())
    if "Unrecognized model identifier" in reason or "Unrecognized configuration class" in reason:
        return InputError(
            value=model_type,
            rule="a model type that transformers knows as a decoder, such as llama, mixtral, qwen3, deepseek_v3",
            place=config.place("model_type"),
            remedy="models with code of their own: profile their layers from Python",
        )
    shortened = reason if len(reason) < 300 else reason[:297] + "..."
    return InputError(value=model_type, rule=f"a model that transformers can build: {shortened}", place=config.place())


def _inputs_of_layers(
    model: Any, tokens: torch.Tensor, config: Fields
) -> list[tuple[torch.Tensor, tuple[Any, ...], dict[str, Any]]]:
    """What the model gives each layer: hidden states, further positional and named inputs, on the meta device.

    The empty cache is there so that nothing asks for values of positions, which the meta device has not; the layers go
    without.
    """
    noted: list[tuple[torch.Tensor, tuple[Any, ...], dict[str, Any]]] = []

    def note(hidden: torch.Tensor, *others: Any, **named: Any) -> torch.Tensor:
        noted.append((hidden, others, {**named, **({"past_key_values": None} if "past_key_values" in named else {})}))
        return hidden

    layers = model.model.layers
    for layer in layers:
        layer.forward = note
    try:
        with torch.no_grad():
            model.model(input_ids=tokens, past_key_values=DynamicCache(), use_cache=False)
    except Exception as error:  # noqa: BLE001 - whatever transformers finds wrong with a user's file
        raise _refused(model.config.model_type, error, config) from None
    finally:
        for layer in layers:
            del layer.forward
    return noted
