"""A user's training YAML of FlagScale with all that a plan decides, otherwise byte for byte the same."""

from collections.abc import Iterator, Mapping

from evenflow.errors import InputError
from evenflow.export.train_yaml import BOM, apply_to_training_yaml
from evenflow.export.yaml_edit import without_entry
from evenflow.fields import is_integer_list
from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.yaml_file import load_yaml
from evenflow.targets.frameworks.flagscale.reader import (
    GRANULARITIES,
    HETERO,
    METHODS,
    NUMBERS,
    SIZE,
    SPLIT,
    all_settings,
)
from evenflow.targets.megatron_family.arguments import ALIASES, arguments_of
from evenflow.targets.megatron_family.baseline import LAYOUT
from evenflow.targets.megatron_family.edit import check_same_run
from evenflow.targets.megatron_family.flags import CUT_FLAGS, RECOMPUTE_FLAGS

_MESHES = "hetero_process_meshes"
_MESH_SIZES = 5
"""Sizes of a kind of device: tensor, context, expert, data, pipeline."""
_DECIDED = {
    *(flag.removeprefix("--").replace("-", "_") for flag in (*CUT_FLAGS, *RECOMPUTE_FLAGS)),
    *(GRANULARITIES, METHODS, NUMBERS, LAYOUT, SIZE, SPLIT, HETERO, _MESHES),
    *(f"recompute_{name}_per_stage" for name in ("granularity", "method", "num_layers")),
}
Path = tuple[str, ...]


def apply_sections(text: str, file: str, plan: Plan, system: Mapping[str, object]) -> str:
    """Return the text of a training YAML with the settings `system` of `plan`, wherever its sections have them.

    Training that is not heterogeneous stays so where the cut is even.

    Raises:
        InputError: text that is not YAML, another network or number of microbatches than the plan's, an uneven cut
            without the sizes of devices, or what cannot be set without changing something else.
    """
    bom = BOM if text.startswith(BOM) else ""
    text = text.removeprefix(BOM)
    fields = all_settings(text, file)
    check_same_run(arguments_of(fields.values, file=file, lines=fields.lines), plan)
    places = dict(_places(text, file))
    wanted = {key: value for key, value in system.items() if key != "hetero"}
    if fields.values.get(HETERO) is True or len(set(plan.layers[0])) > 1:
        meshes = _meshes(fields.values.get(_MESHES), plan, place=fields.place(_MESHES))
        wanted |= {HETERO: True, SPLIT: list(plan.layers[0]), _MESHES: meshes}
    kept = {SPLIT, HETERO, _MESHES, *wanted}
    removed = [key for key in places if key not in kept and fields.values[key] is not False]
    values = {".".join((*_home(key, places), key)): value for key, value in wanted.items()}
    after = apply_to_training_yaml(text, file=file, values=values)
    for key in removed:
        after = without_entry(after, (*places[key], key), file=file)
    return bom + after


def _meshes(meshes: object, plan: Plan, *, place: str) -> list[int]:
    """Return the sizes of all kinds of device with the ranks of the plan: those of one kind follow it."""
    if not is_integer_list(meshes) or not meshes or len(meshes) % _MESH_SIZES:
        raise InputError(
            value=meshes,
            rule=_("must have five sizes for each kind of device: an uneven cut is heterogeneous training"),
            place=place,
            remedy=_("write [tensor, context, expert, data, pipeline] of every kind, and hetero_device_types"),
        )
    if len(meshes) == _MESH_SIZES:
        return [*meshes[:-1], plan.num_ranks]
    if sum(meshes[_MESH_SIZES - 1 :: _MESH_SIZES]) != plan.num_ranks:
        rule = _("must have pipeline sizes that sum to the {ranks} ranks of the plan", ranks=plan.num_ranks)
        raise InputError(value=meshes, rule=rule, place=place)
    return list(meshes)


def _places(text: str, file: str) -> Iterator[tuple[str, Path]]:
    """Yield the mapping in which each setting that a plan decides stands; raises InputError for one that is twice."""
    top = load_yaml(text, file=file).values
    found: set[str] = set()
    for path, key in _entries({name: top.get(name) for name in ("system", "model")}, ()):
        name = ALIASES.get(key, key)
        if name not in _DECIDED:
            continue
        if name in found:
            rule = _("must be given once, to be edited")
            raise InputError(value=".".join((*path, key)), rule=rule, place=f"{file}: {key}")
        found.add(name)
        yield key, path


def _entries(values: Mapping[str, object], path: Path) -> Iterator[tuple[Path, str]]:
    """Yield every entry of a mapping and of those inside it, with the keys that lead to it."""
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _entries({str(name): inner for name, inner in value.items()}, (*path, key))
        else:
            yield path, key


def _home(key: str, places: Mapping[str, Path]) -> Path:
    """Return the mapping for a setting: the one that has it or others of its kind, else the usual one."""
    if key in places:
        return places[key]
    kind = next((name for name in ("recompute", "hetero") if name in key), key)
    usual = ("system", "hetero") if kind == "hetero" else ("system",)
    return next((path for name, path in places.items() if kind in name), usual)
