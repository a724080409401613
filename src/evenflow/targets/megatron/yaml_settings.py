"""Settings of Megatron-LM in a section of a user's YAML, which stays as it is otherwise, byte for byte."""

from collections.abc import Mapping, Sequence

from evenflow.errors import InputError
from evenflow.export.train_yaml import apply_to_training_yaml
from evenflow.export.yaml_edit import set_value
from evenflow.fields import as_fields, is_integer
from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.yaml_values import load_document
from evenflow.targets.megatron.layout import parse_layout

LAYOUT = "pipeline_model_parallel_layout"
_BOM = "\ufeff"


def section_of(text: str, path: Sequence[str], *, file: str) -> Mapping[str, object]:
    """Return the mapping under the keys of `path`; an empty one where a key is missing or null.

    Raises InputError for text that is not YAML, and for what is no mapping.
    """
    section: object = load_document(text.removeprefix(_BOM), file=file).value
    for depth in range(len(path) + 1):
        section = {} if section is None else section
        if not isinstance(section, dict):
            place = f"{file}: {'.'.join(path[:depth])}" if depth else file
            raise InputError(value=type(section).__name__, rule=_("must be a mapping"), place=place)
        if depth < len(path):
            section = section.get(path[depth])
    return as_fields(section, file=file).values


def mtp_layers_in(values: Mapping[str, object], *, place: str) -> int:
    """Return the layers of multi-token prediction that a section asks for: by number, or as the m of its layout."""
    number, layout = values.get("mtp_num_layers"), values.get(LAYOUT)
    if is_integer(number) and number >= 0:
        return number
    return sum(parse_layout(layout, place=f"{place}.{LAYOUT}").mtp_layers) if layout is not None else 0


def apply_settings(
    text: str,
    path: Sequence[str],
    *,
    settings: Mapping[str, object],
    instead: Mapping[str, object],
    plan: Plan,
    file: str,
) -> str:
    """Return `text` with `settings` in the section under `path`.

    Values of `instead` replace what the section has under their keys, where it has something else: they are what a
    layout excludes. A layout that says the same in other words stays, and so do the modules that it names.

    Raises:
        InputError: as `apply_to_training_yaml` does; a section with another number of layers than the plan.
    """
    place = f"{file}: {'.'.join(path)}"
    section = section_of(text, path, file=file)
    num_layers = section.get("num_layers")
    if is_integer(num_layers) and num_layers != plan.num_layers:
        rule = _("must be the number of layers of the plan ({num_layers})", num_layers=plan.num_layers)
        raise InputError(value=num_layers, rule=rule, place=f"{place}.num_layers")
    values = {name: value for name, value in settings.items() if name != "recompute_modules" or not section.get(name)}
    old = section.get(LAYOUT)
    if old is not None and LAYOUT in values:
        same = parse_layout(old, place=f"{place}.{LAYOUT}") == parse_layout(values[LAYOUT], place=LAYOUT)
        values[LAYOUT] = old if same else values[LAYOUT]
    values |= {key: value for key, value in instead.items() if section.get(key) not in (None, False)}
    after = apply_to_training_yaml(text, file=file, values={".".join((*path, key)): values[key] for key in values})
    for key in values:
        if values[key] is None and key not in section:  # which that takes for null already
            after = set_value(after, (*path, key), None, file=file)
    return after
