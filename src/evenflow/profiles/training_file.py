"""The pipeline that a MindFormers training YAML describes. [SAPP-PPB, -train]"""

from dataclasses import dataclass
from pathlib import Path

from evenflow.fields import Fields, read_text
from evenflow.profiles.yaml_file import load_yaml, optional_section
from evenflow.ranges import MODEL_SIZE

LAYER_KEYS = ("num_layers", "num_hidden_layers", "n_layer")
"""Names of the number of layers in `model_config`, by the age of the model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingSizes:
    """The sizes of a training run; a field that the file does not have is None."""

    file: str
    num_stages: int | None
    num_microbatches: int | None
    num_layers: int | None
    layers_place: str
    """Where the number of layers stands, for messages."""
    sequence_length: int | None
    """Tokens of a sequence."""
    key_value_bytes: int | None = None
    """Keys and values of one layer for one microbatch on one device; None where the file lacks a size for it."""


def read_training_sizes(path: Path | str) -> TrainingSizes:
    """Return the sizes in the training YAML at `path`.

    Raises:
        InputError: a file that cannot be read, or a size that is no whole number above zero.
    """
    return training_sizes(load_yaml(read_text(path), file=str(path)))


def training_sizes(top: Fields) -> TrainingSizes:
    """Return the sizes in a training YAML; raises InputError for one that is no whole number above zero."""
    parallel = optional_section(top, "parallel_config")
    model = optional_section(optional_section(top, "model"), "model_config")
    layers_key = next((key for key in LAYER_KEYS if key in model), LAYER_KEYS[0])
    return TrainingSizes(
        file=top.file,
        num_stages=_size(parallel, "pipeline_stage"),
        num_microbatches=_size(parallel, "micro_batch_num"),
        num_layers=_size(model, layers_key),
        layers_place=model.place(layers_key),
        sequence_length=_size(model, "seq_length"),
        key_value_bytes=_key_value_bytes(top, model, parallel),
    )


def _key_value_bytes(top: Fields, model: Fields, parallel: Fields) -> int | None:
    """Return 2 tensors of [microbatch, sequence, key-value heads, head size], over the devices that share them."""
    heads, width, tokens = (_size(model, key) for key in ("num_heads", "hidden_size", "seq_length"))
    if heads is None or width is None or tokens is None:
        return None
    key_value_heads = _size(model, "n_kv_heads") or heads
    batch = _size(optional_section(top, "runner_config"), "batch_size") or 1
    devices = (_size(parallel, "model_parallel") or 1) * (_size(parallel, "context_parallel") or 1)
    number_bytes = 4 if model.values.get("compute_dtype") == "float32" else 2
    return 2 * number_bytes * batch * tokens * key_value_heads * (width // heads) // devices


def _size(fields: Fields, key: str) -> int | None:
    return None if fields.values.get(key) is None else fields.integer(key, MODEL_SIZE)
