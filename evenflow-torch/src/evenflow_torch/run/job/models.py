"""The model and the data of ``evenflow run``: a model of transformers, of which each rank makes its own part."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from evenflow.cluster import Dtype
from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, load_json
from evenflow.language import _
from evenflow.model.config_sizes import check_config_sizes
from evenflow.profiles.transformer.field_names import refuse_misspelt
from evenflow.ranges import TRAINED_SIZE
from evenflow_torch.models.decoder_config import build_decoder, build_family_model
from evenflow_torch.models.decoder_row import MODEL_TYPES
from evenflow_torch.models.families.row_modules import mix_in
from evenflow_torch.models.families.table import FAMILIES
from evenflow_torch.models.made_buffers import make_buffers
from evenflow_torch.models.parts import ModelRow, Part
from evenflow_torch.models.rows import as_row
from evenflow_torch.run.engine.seeds import seed_of, seeded
from evenflow_torch.run.engine.shared_parameters import names_of, share
from evenflow_torch.run.engine.stages import check_layers
from evenflow_torch.run.job import adapters
from evenflow_torch.run.values.run_job import RunJob

_TINY_SIZES = {
    "model_type": "llama",
    "vocab_size": 256,
    "hidden_size": 64,
    "intermediate_size": 176,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2**20,
}

_RMS_NORMS = ("RMSNorm", "T5LayerNorm")
"""Ends of the names of root mean square norms."""
_MOST_LAYERS = 10_000
"""Beyond the deepest models; each layer takes about a millisecond to build."""


def build_model(job: RunJob) -> ModelRow:
    """Return the model of a job on the meta device: its shapes, in the job's type, without storage.

    Raises:
        InputError: a configuration of another kind of model, or sizes that do not go together.
    """
    values = model_values(job)
    family = FAMILIES.get(values["model_type"])
    count = values.get("num_hidden_layers")
    if isinstance(count, int) and not (family is not None and family.has_source):  # else it is the encoder's
        _check_count(job, count)  # before modules are made, of which there may be too many
    config = Fields(values=values, file=job.model)
    is_exact = job.dtype is Dtype.FLOAT64
    if family is not None:
        model = build_family_model(config, dtype=job.dtype)
    else:
        # The kernel for all experts at once has no float64.
        options: dict[str, Any] = {"experts_implementation": "eager"} if is_exact else {}
        model = build_decoder(config, dtype=job.dtype, **options)
        heads, hidden = model.config.num_attention_heads, model.config.hidden_size
        if "head_dim" not in config and hidden % heads:
            raise InputError(
                value=heads,
                rule=_("must divide the hidden size ({hidden})", hidden=hidden),
                place=config.place("num_attention_heads"),
            )
    if is_exact:
        norm_in_float64(model)
    row = as_row(model.to(getattr(torch, job.dtype)), source_tokens=job.sequence_length)
    if job.adapter_rank:
        adapters.train_adapters(row, job.adapter_rank, frozen_layers=job.frozen_layers)
    _freeze(row, job.frozen_layers)
    return row


def _freeze(model: ModelRow, count: int) -> None:
    """Leave the first layers untrained, and what is before them: a tied output layer too, which is the embedding.

    Raises:
        InputError: as many layers as there are, of which one must be trained.
    """
    if not count:
        return
    if count >= model.num_layers:
        rule = _("must be fewer than the {count} layers of the model", count=model.num_layers)
        raise InputError(value=count, rule=rule, place="--freeze")
    for part in (*model.head, *model.body[:count]):
        part.module.requires_grad_(False)


def _check_count(job: RunJob, count: int) -> None:
    """Raise InputError where the plan is for another number of layers, or where that many modules take hours."""
    check_layers(job.plan, count)
    if count > _MOST_LAYERS:
        rule = _("must add up to at most {most:,} layers", most=_MOST_LAYERS)
        raise InputError(value=count, rule=rule, place=_("plan, layers"))


def norm_in_float64(model: nn.Module) -> None:
    """Let norms and routers compute as exactly as the rest: transformers' own round to float32 in between."""
    for module in model.modules():
        if type(module).__name__.endswith(_RMS_NORMS) and hasattr(module, "variance_epsilon"):
            mix_in(module, _ExactNorm)
        elif type(module).__name__.endswith("Router"):
            module.forward = partial(_in_float64, module.forward)


def _in_float64(forward: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with _NoFloat32():
        return forward(*args, **kwargs)


class _NoFloat32(TorchFunctionMode):
    """A mode in which whatever asks for float32 gets float64."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.float:
            return args[0].double()
        args = [torch.float64 if argument is torch.float32 else argument for argument in args]
        kwargs = {
            key: torch.float64 if argument is torch.float32 else argument for key, argument in (kwargs or {}).items()
        }
        return func(*args, **kwargs)


class _ExactNorm(nn.Module):
    """A root mean square norm in the type of its input; mixed into the class of the norm."""

    weight: Tensor
    variance_epsilon: float

    def forward(self, hidden: Tensor) -> Tensor:
        scale = torch.rsqrt(hidden.square().mean(-1, keepdim=True) + self.variance_epsilon)
        return self.weight * (hidden * scale)


def materialise(model: ModelRow, parts: list[Part], *, seed: int, device: torch.device) -> None:
    """Give the modules of `parts` storage and initial values, as transformers does.

    Values depend on the seed and the name alone, so that they are the same however the model is split; those of linear
    layers and embeddings do not depend on the type either.
    """
    first_names = {name: names[0] for names in model.shared for name in names}
    make_buffers(model, model.parts, device)
    for part in parts:
        part.module.to_empty(device=device)
        for path, module in part.module.named_modules():
            with seeded(seed_of(seed, part.path, path), device):
                model.whole._init_weights(module)
            for last, parameter in module.named_parameters(recurse=False):
                name = ".".join(piece for piece in (part.path, path, last) if piece)
                _initialise(module, last, parameter, seed_of(seed, first_names.get(name, name)), _deviation(model))
    share(model.shared, {name: part for part in parts for name in names_of(part)})


def next_token_loss(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross entropy of the tokens of a microbatch.

    `logits` have shape [batch, length, vocabulary], `targets` [batch, length].
    """
    return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def tokens(
    *, seed: int, step: int, batch: int, length: int, vocabulary: int, device: torch.device, target_length: int = 0
) -> tuple[Tensor, Tensor]:
    """Return a batch that can be learned and its next tokens: every sequence counts up from a random token.

    Both have shape [batch, length] and are the same on every rank. With a target, the next tokens are those of its
    `target_length` tokens, which are the last ones.
    """
    generator = torch.Generator().manual_seed(seed_of(seed, "tokens", step))
    first = torch.randint(vocabulary, (batch, 1), generator=generator)
    sequence = (first + torch.arange(length + 1)) % vocabulary
    inputs, targets = sequence[:, :-1], sequence[:, 1 + length - (target_length or length) :]
    if device.type == "cuda":  # only from pinned memory in one piece does a copy not wait
        inputs, targets = inputs.contiguous().pin_memory(), targets.contiguous().pin_memory()
    return inputs.to(device, non_blocking=True), targets.to(device, non_blocking=True)


def model_values(job: RunJob) -> dict[str, Any]:
    """Return the configuration with the sizes that the job changes."""
    if job.config:
        config = as_fields(load_json(job.config, file=job.model), file=job.model)
        check_config_sizes(config, vocabulary=TRAINED_SIZE)
        refuse_misspelt(config)
        values: dict[str, Any] = dict(config.values)
        if values.get("model_type") in FAMILIES:
            return _family_values(job, values)
        if values.get("model_type") not in MODEL_TYPES:
            raise InputError(
                value=values.get("model_type"),
                rule=_("must be one of {names}", names=", ".join(sorted((*MODEL_TYPES, *FAMILIES)))),
                place=f"{job.model}: model_type",
                remedy=_("run other models from a script of your own with evenflow.run.pipeline, as a list of modules"),
            )
    else:
        values = {**_TINY_SIZES, "num_hidden_layers": job.plan.num_layers}
    if job.hidden_size:
        if "intermediate_size" in values and "hidden_size" in values:  # as wide as before, relatively
            values["intermediate_size"] = max(1, values["intermediate_size"] * job.hidden_size // values["hidden_size"])
        values["hidden_size"] = job.hidden_size
    if job.num_heads:
        values["num_attention_heads"] = values["num_key_value_heads"] = job.num_heads
    if job.hidden_size or job.num_heads:
        values.pop("head_dim", None)
    if job.num_layers:
        values["num_hidden_layers"] = job.num_layers
    if job.vocab_size:
        values["vocab_size"] = job.vocab_size
    # Special tokens play no part here, and the type is the job's.
    tokens = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    return {key: value for key, value in values.items() if key not in ("dtype", "torch_dtype", "auto_map")} | tokens


def _family_values(job: RunJob, values: dict[str, Any]) -> dict[str, Any]:
    """Return the configuration of a model of `FAMILIES`, whose sizes have names of their own."""
    sizes_given = {"--layers": job.num_layers, "--hidden": job.hidden_size, "--heads": job.num_heads}
    for option, value in sizes_given.items():
        if value:
            raise InputError(
                value=value,
                rule=_("must not be given for a {model_type}", model_type=values["model_type"]),
                place=option,
                remedy=_("change the configuration"),
            )
    sizes = {"vocab_size": job.vocab_size} if job.vocab_size else {}
    return {key: value for key, value in values.items() if key not in ("dtype", "torch_dtype", "auto_map")} | sizes


def _deviation(model: ModelRow) -> float:
    return float(getattr(getattr(model.whole, "config", None), "initializer_range", 0.02))


def _initialise(module: nn.Module, last: str, parameter: nn.Parameter, seed: int, deviation: float) -> None:
    with torch.no_grad():
        is_plain = isinstance(module, nn.Linear | nn.Embedding) and last == "weight"
        if last.endswith(adapters.SECOND):
            parameter.zero_()
        elif is_plain or last.endswith(adapters.FIRST):
            values = torch.empty(parameter.shape).normal_(0, deviation, generator=torch.Generator().manual_seed(seed))
            parameter.copy_(values)
