"""Tells the configuration of a model (config.json) from a layer file or a plan file, and refuses it in their place."""

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _

_NAMES = ("architectures", "model_type")
"""Fields of which every configuration of a model has one, and no file of evenflow any."""


def is_configuration(fields: Fields) -> bool:
    """Whether a JSON object is the configuration of a model, as transformers writes it, and no layer file."""
    return "layers_description" not in fields and any(name in fields for name in _NAMES)


def refuse_configuration(fields: Fields) -> None:
    """Refuse the configuration of a model where a layer file or a plan file belongs, and say how it becomes one.

    Raises:
        InputError: `fields` are a configuration.
    """
    if is_configuration(fields):
        raise InputError(
            rule=_("must be a layer file or a plan file, not the configuration of a model"),
            place=fields.place(),
            remedy=_(
                "plan it with `evenflow plan {file} --accelerator NAME`, or write its layer file with "
                "`evenflow predict --model {file} --accelerator NAME -o layers.json`",
                file=fields.file,
            ),
        )
