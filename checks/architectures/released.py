"""Released models: how evenflow reads, predicts and plans them. Part of `make check-architectures`.

`released.json` has the sizes that their publishers state, as fields that differ from the defaults of their type, or as
an example of this repository; a type without either is released at its defaults. Some need further options. Where
transformers has no such type, the model is `built_as` another one, or the `tensors` of its checkpoint say how many
parameters its decoder has.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from outcomes import Outcome

from evenflow.errors import InputError
from evenflow.fields import as_fields
from evenflow.predict.transformer import Modality
from evenflow.profiles.transformer.config_file import transformer_of_config
from evenflow.profiles.transformer.numbers import Described

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parents[1] / "examples" / "configs"
PREDICTED = ("--pipeline", "8", "--global-batch", "16", "--seq", "2048")
PLANNED = ("--ranks", "8", "--microbatches", "16", "--time-limit", "3")
SIZES = ("--accelerator", "h200", "--memory", "90TB")
"""An accelerator with room for any model: whether one fits is not asked here."""


def released() -> dict[str, dict[str, Any]]:
    """Return what is said of each model, by its name."""
    found: dict[str, dict[str, Any]] = json.loads((HERE / "released.json").read_text("utf-8"))
    return found


def released_models() -> dict[str, tuple[str, dict[str, Any]]]:
    """Return the type and the fields of each model that transformers has, as `build.py` takes them."""
    return {
        name: (about.get("built_as", about["model_type"]), fields_of(about))
        for name, about in released().items()
        if "tensors" not in about
    }


def fields_of(about: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of a model, from what is said of it."""
    if "example" in about:
        return dict(json.loads((EXAMPLES / about["example"]).read_text("utf-8")))
    return dict(about.get("config", {}))


def as_row(name: str, outcome: Outcome, config: dict[str, Any]) -> dict[str, Any]:
    """Return what the page shows of a model that was built."""
    of_check = ("config", "options", "tensors", "built_as")
    about = {key: value for key, value in released()[name].items() if key not in of_check}
    further = released()[name].get("options", [])
    described = transformer_of_config(as_fields(config, file="config.json"))
    return {
        **about,
        "built": outcome.built,
        "read": outcome.read,
        "parts": parts_of(described),
        "predicted": _succeeds(["predict", "--model"], config, *PREDICTED, *further),
        "planned": _succeeds(["plan"], config, *PLANNED, *further),
    }


def parts_of(described: Described) -> list[str]:
    """Return what layers of a model are made of, in a few words."""
    model = described.model
    kinds = model.kinds
    states = model.states.mixer

    def has_encoder(modality: Modality) -> bool:
        encoder = described.encoders.get(modality)
        return encoder is not None and not isinstance(encoder, InputError)

    words = {
        "latent attention": model.latent is not None and any(kind.attention for kind in kinds),
        "attention": model.latent is None and any(kind.attention and not kind.window for kind in kinds),
        "windowed attention": any(kind.window for kind in kinds),
        "an indexer": any(kind.indexed for kind in kinds),
        "" if states is None else states.name: states is not None,
        "MLP": any(kind.mlp for kind in kinds),
        "experts in attention": model.attention_experts,
        "experts": any(kind.experts for kind in kinds),
        "half blocks": not all(kind.mixes and kind.transforms for kind in kinds),
        "shared blocks of attention and MLP": model.shared is not None,
        "layers in a loop": bool(model.loops),
        "attention to images": model.images is not None,
        f"{model.streams} residual streams": model.streams > 1,
        "MTP": model.predicted_tokens > 0,
        "an encoder of images": has_encoder(Modality.IMAGE),
        "an encoder of sound": has_encoder(Modality.AUDIO),
    }
    return [word for word, is_there in words.items() if is_there]


def _succeeds(command: list[str], config: dict[str, Any], *options: str) -> bool:
    """Return whether a command of evenflow ends well with this configuration."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.json"
        file.write_text(json.dumps(config), encoding="utf-8")
        words = [sys.executable, "-m", "evenflow", *command, str(file), *SIZES, *options]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
