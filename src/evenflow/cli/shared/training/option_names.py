"""The names that the settings of a training have as options, for messages."""

from collections.abc import Iterable

from evenflow.cli.shared.training.training_options import KIND_WORDS
from evenflow.predict.limits.smallest_change import Setting

_OTHER_NAMES = {
    "vocabulary": "vocab",
    "sequence": "seq",
    "sharding": "zero",
    "layout": "layers_per_rank",
    "full_layers": "recompute_layers",
    "gradient_bytes": "gradient_dtype",
    "reduced_bytes": "gradient_dtype",
}
_GRADIENTS = {2: "bf16", 4: "fp32"}


def option(field: str) -> str:
    """Return the option of a field of a training, as messages name it."""
    return f"--{_OTHER_NAMES.get(field, field).replace('_', '-')}"


def changed_options(settings: Iterable[Setting]) -> tuple[str, ...]:
    """Return the options that make the settings what they are after a change, or leave them out."""
    found = []
    for one in settings:
        name, value = option(one.field), one.after
        if one.field == "sequence_parallel":
            found.append("no --no-sequence-parallel")
        elif value is None or value == ():
            found.append(f"no {name}")
        elif one.field == "recompute":
            found.append(f"{name} {KIND_WORDS[str(value)]}")
        elif one.field in ("gradient_bytes", "reduced_bytes"):
            found.append(f"{name} {_GRADIENTS[int(str(value))]}")
        else:
            found.append(f"{name} {value}")
    return tuple(dict.fromkeys(found))
