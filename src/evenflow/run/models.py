"""Models by name, for ``evenflow run``: transformers' Llama from a configuration, each rank with its own part only."""

import json
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from evenflow.errors import InputError
from evenflow.run.layered import LayeredModel, Part, as_layered
from evenflow.run.seeds import seed_of
from evenflow.run.shared import names_of, share

TINY = "llama-tiny"
_TINY_SIZES = {
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2**20,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelSpec:
    """Which Llama to build."""

    name: str
    """``llama-tiny``, or the name of the file that `config` comes from."""
    config: str = ""
    """The text of a ``config.json``; empty for ``llama-tiny``, which has as many layers as its plan."""
    num_layers: int | None = None
    """Of the configuration, changed."""
    hidden_size: int | None = None
    num_heads: int | None = None
    vocab_size: int | None = None


def llama(spec: ModelSpec, *, num_layers: int) -> Any:
    """The model on the meta device: its shapes without storage; ``llama-tiny`` has `num_layers` unless `spec` says.

    Raises:
        InputError: a configuration that is not one of a Llama, or sizes that do not go together.
    """
    from transformers import LlamaConfig, LlamaForCausalLM

    values = dict(_TINY_SIZES, num_hidden_layers=num_layers) if not spec.config else _values(spec)
    if spec.hidden_size:
        if "intermediate_size" in values and "hidden_size" in values:  # as wide as before, relatively
            values["intermediate_size"] = max(
                1, values["intermediate_size"] * spec.hidden_size // values["hidden_size"]
            )
        values["hidden_size"] = spec.hidden_size
        values.pop("head_dim", None)
    if spec.num_heads:
        values["num_attention_heads"] = values["num_key_value_heads"] = spec.num_heads
        values.pop("head_dim", None)
    for key, value in (("num_hidden_layers", spec.num_layers), ("vocab_size", spec.vocab_size)):
        if value:
            values[key] = value
    for token in ("bos_token_id", "eos_token_id", "pad_token_id"):  # special tokens play no part in training here
        values[token] = None
    try:
        config = LlamaConfig(**values)
        if config.hidden_size % config.num_attention_heads and "head_dim" not in values:
            raise ValueError(f"{config.num_attention_heads} heads do not divide a hidden size of {config.hidden_size}")
        with torch.device("meta"):
            return LlamaForCausalLM(config)
    except Exception as error:  # noqa: BLE001  transformers checks a configuration with errors of many kinds
        raise InputError(
            value=spec.name,
            rule=f"the configuration makes a Llama ({error})",
            place="--model",
            remedy="check its sizes",
        ) from None


def materialise(model: LayeredModel, parts: list[Part], *, seed: int, device: torch.device) -> None:
    """Give the modules of `parts` storage and initial values, as transformers does: normal weights, zero biases.

    A parameter's values depend on the seed and its name alone, so that they are the same however the model is split.
    """
    first_names = {name: names[0] for names in model.shared for name in names}
    model.whole.model.rotary_emb = type(model.whole.model.rotary_emb)(config=model.whole.config).to(device)
    for part in parts:
        part.module.to_empty(device=device)
        for path, module in part.module.named_modules():
            for last, parameter in module.named_parameters(recurse=False):
                name = ".".join(piece for piece in (part.name, path, last) if piece)
                _initialise(module, last, parameter, seed_of(seed, first_names.get(name, name)), _deviation(model))
    share(model.shared, {name: part for part in parts for name in names_of(part)})


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Mean cross entropy of the tokens of a microbatch: `logits` [batch, length, vocabulary], `targets` without it."""
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def tokens(
    *, seed: int, step: int, batch: int, length: int, vocabulary: int, device: torch.device
) -> tuple[Tensor, Tensor]:
    """A batch that can be learned: every sequence counts up from a random token; and its next tokens.

    Both of shape [batch, length], the same on every rank.
    """
    generator = torch.Generator().manual_seed(seed_of(seed, "tokens", step))
    first = torch.randint(vocabulary, (batch, 1), generator=generator)
    sequence = (first + torch.arange(length + 1)) % vocabulary
    return sequence[:, :-1].to(device), sequence[:, 1:].to(device)


def layered_llama(spec: ModelSpec, *, num_layers: int, dtype: torch.dtype) -> LayeredModel:
    """As `llama`, as a row of modules of type `dtype`."""
    return as_layered(llama(spec, num_layers=num_layers).to(dtype))


def _values(spec: ModelSpec) -> dict[str, Any]:
    values = json.loads(spec.config)
    kind = values.get("model_type")
    if kind != "llama":
        raise InputError(
            value=kind,
            rule='a configuration has "model_type": "llama"',
            place=spec.name,
            remedy="run other models from your own script with evenflow.run.pipeline, as a list of modules",
        )
    # The runtime needs no file names, and computes in the type that is asked for.
    return {key: value for key, value in values.items() if key not in ("dtype", "torch_dtype", "architectures")}


def _deviation(model: LayeredModel) -> float:
    return float(getattr(getattr(model.whole, "config", None), "initializer_range", 0.02))


def _initialise(module: nn.Module, last: str, parameter: nn.Parameter, seed: int, deviation: float) -> None:
    with torch.no_grad():
        if last == "bias":
            parameter.zero_()
        elif isinstance(module, nn.Linear | nn.Embedding):
            values = torch.empty(parameter.shape).normal_(0, deviation, generator=torch.Generator().manual_seed(seed))
            parameter.copy_(values)
        else:  # norms
            parameter.fill_(1)
