"""Settings of Megatron-LM in a section of a user's YAML, which stays as it is otherwise, byte for byte."""

from collections.abc import Mapping, Sequence

from evenflow.errors import InputError
from evenflow.export.train_yaml import apply_to_training_yaml
from evenflow.export.yaml_edit import set_value
from evenflow.fields import Fields, is_integer
from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.yaml_file import load_yaml, optional_section
from evenflow.targets.megatron_family.layout import parse_layout
from evenflow.targets.megatron_family.settings import kept_modules

LAYOUT = "pipeline_model_parallel_layout"
_BOM = "\ufeff"


def section_of(text: str, path: Sequence[str], *, file: str) -> Fields:
    """Return the section under the keys of `path`; an empty one where a key is missing or null.

    Raises InputError for text that is not YAML, and for what is no object.
    """
    fields = load_yaml(text.removeprefix(_BOM), file=file)
    for key in path:
        fields = optional_section(fields, key)
    return fields


def mtp_layers_in(section: Fields) -> int:
    """Return the layers of multi-token prediction that a section asks for: by number, or as the m of its layout."""
    number, layout = section.values.get("mtp_num_layers"), section.values.get(LAYOUT)
    if is_integer(number) and number >= 0:
        return number
    return sum(parse_layout(layout, place=section.place(LAYOUT)).mtp_layers) if layout is not None else 0


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
    layout excludes. A layout that says the same in other words stays, and so does the recomputation of modules that
    no plan knows, where it can.

    Raises:
        InputError: as `apply_to_training_yaml` does; a section with another number of layers than the plan.
    """
    section = section_of(text, path, file=file)
    old = section.values
    num_layers = plan.num_layers - plan.mtp_layers
    if is_integer(old.get("num_layers")) and old["num_layers"] != num_layers:
        rule = _("must be the number of layers of the plan ({num_layers})", num_layers=num_layers)
        raise section.error("num_layers", rule)
    if plan.mtp_layers and (told := mtp_layers_in(section)) != plan.mtp_layers:
        rule = _("must be {count}, as in the plan", count=plan.mtp_layers)
        raise InputError(value=told, rule=rule, place=section.place("mtp_num_layers"))
    values = {**settings, **kept_modules(settings, old)}
    if old.get(LAYOUT) is not None and LAYOUT in values:
        mine = parse_layout(old[LAYOUT], place=section.place(LAYOUT))
        values[LAYOUT] = old[LAYOUT] if mine == parse_layout(values[LAYOUT], place=LAYOUT) else values[LAYOUT]
    values |= {key: value for key, value in instead.items() if old.get(key) not in (None, False)}
    after = apply_to_training_yaml(text, file=file, values={".".join((*path, key)): values[key] for key in values})
    for key in values:
        if values[key] is None and key not in old:  # which that takes for null already
            after = set_value(after, (*path, key), None, file=file)
    return after
