"""The configuration of a decoder, as ``--model`` names it."""

from dataclasses import dataclass
from pathlib import Path

from evenflow.asking import asked
from evenflow.cli.shared.files.input_files import STANDARD_INPUT, read_text
from evenflow.fields import Fields, as_fields, load_json

MODEL = asked(
    option="--model",
    metavar="CONFIG.json",
    help="Configuration of a model, as transformers writes it, or the folder that has it.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelConfig:
    """A configuration that was read, and what its model is called."""

    name: str
    fields: Fields


def config_path(model: str) -> str:
    """Return the file that ``--model`` names: ``config.json`` of a folder."""
    return str(Path(model) / "config.json") if Path(model).is_dir() else model


def read_config(path: str) -> ModelConfig:
    """Read a configuration; its model is called like the file, or like the folder of a ``config.json``."""
    text, place = read_text(path)
    return config_of(as_fields(load_json(text, file=place), file=place), path)


def config_of(fields: Fields, path: str) -> ModelConfig:
    """Return the configuration whose `fields` stand in the file `path`."""
    if path == STANDARD_INPUT:
        return ModelConfig(name=fields.file, fields=fields)
    file = Path(path).resolve()
    return ModelConfig(name=file.parent.name if file.stem == "config" else file.stem, fields=fields)
