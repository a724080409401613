"""The modules of every stage by name, as ``module_fqns_per_model_part`` of torchtitan and NeMo AutoModel has them."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.ranges import LAYERS
from evenflow.targets.stages import StageLayers

_LAYER = re.compile(r"((?:.*\.)?layers\.)(\d{1,6})")


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleNames:
    """The names of a framework's modules."""

    first: tuple[str, ...]
    """Modules before the layers."""
    last: tuple[str, ...]
    """Modules after the layers."""
    layers: str = "layers."
    """What stands before the index of a layer."""
    everywhere: tuple[str, ...] = ()
    """Modules that every stage has."""


def names_per_part(stages: Sequence[StageLayers], names: ModuleNames) -> list[list[str]]:
    """Return the names of the modules of every stage, in the order of the network."""
    parts = [[*(f"{names.layers}{layer}" for layer in stage.layers), *names.everywhere] for stage in stages]
    parts[0][:0] = names.first
    parts[-1] += names.last
    return parts


def layers_per_part(value: object, *, place: str) -> tuple[int, ...]:
    """Return the number of layers of every part in a value of ``module_fqns_per_model_part``.

    Raises:
        InputError: no list of lists of names, or layers that are not all there once and in order.
    """
    if (
        not isinstance(value, list)
        or not value
        or not all(isinstance(part, list) and all(isinstance(name, str) for name in part) for part in value)
    ):
        raise InputError(
            value=value, rule=_("must be a list of lists of module names, one for each stage"), place=place
        )
    found = [[int(match[2]) for name in part if (match := _LAYER.fullmatch(name))] for part in value]
    layers = [layer for part in found for layer in part]
    if layers != list(range(len(layers))) or len(layers) not in LAYERS:
        raise InputError(
            value=layers,
            rule=_("must have every layer once, from layers.0 on and in order"),
            place=place,
        )
    return tuple(map(len, found))


def names_in_parts(value: object, *, place: str) -> ModuleNames:
    """Return the names of the modules in a value of ``module_fqns_per_model_part``.

    Raises:
        InputError: as `layers_per_part` does; layers with several names, or a module that is neither in all parts nor
            in the first or the last one alone.
    """
    layers_per_part(value, place=place)
    assert isinstance(value, list)
    prefixes = {match[1] for part in value for name in part if (match := _LAYER.fullmatch(name))}
    others = [[name for name in part if not _LAYER.fullmatch(name)] for part in value]
    everywhere = [name for name in others[0] if all(name in part for part in others)]
    of_ends = [tuple(name for name in part if name not in everywhere) for part in others]
    if len(value) < 2 or len(prefixes) != 1 or any(of_ends[1:-1]):
        raise InputError(
            value=value,
            rule=_(
                "must have one name for all layers, and other modules in the first, the last or all parts of several"
            ),
            place=place,
        )
    return ModuleNames(first=of_ends[0], last=of_ends[-1], layers=prefixes.pop(), everywhere=tuple(everywhere))


def even_parts(*, num_layers: int, num_parts: int, first_less: int, last_less: int) -> tuple[int, ...] | None:
    """Return the layers of every part where a framework cuts by itself: equally, as if both ends had layers too.

    `first_less` and `last_less` are the layers that the modules before and after the layers count for. What does not
    divide goes to the first parts. None where a part would have none, or fewer than these. [torchtitan,
    `_generate_llm_fqn_per_model_part`]

    >>> even_parts(num_layers=16, num_parts=4, first_less=1, last_less=1)
    (4, 5, 4, 3)
    """
    if num_parts == 1:
        return (num_layers,)
    share, extra = divmod(num_layers + first_less + last_less, num_parts)
    if share == 0 or max(first_less, last_less) > share:
        return None
    counts = [share + (part < extra) for part in range(num_parts)]
    counts[0] -= first_less
    counts[-1] -= last_less
    return tuple(counts)
