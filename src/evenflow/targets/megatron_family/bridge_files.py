"""Files of Megatron-Bridge: a YAML with sections for the parts of its configuration, or overrides in a shell script."""

import re
from collections.abc import Mapping

from evenflow.fields import Fields
from evenflow.language import _
from evenflow.predict.training import Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.megatron_family.arguments import KNOWN, OF_DEGREES, Arguments, arguments_of
from evenflow.targets.megatron_family.degrees.degree_settings import batch_settings, degree_settings, sharding_settings
from evenflow.targets.megatron_family.degrees.stated import stated_degrees
from evenflow.targets.megatron_family.settings import DELAYED, PAIRS, Setting
from evenflow.targets.megatron_family.shell_overrides import decoded_override, overrides_in
from evenflow.targets.megatron_family.yaml_settings import section_of
from evenflow.targets.own_keys import check_own_keys
from evenflow.targets.stated_degrees import StatedDegrees

TITLE = "Megatron-Bridge"
OVERLAP = "comm_overlap"
"""The section of what runs beside what."""
_IS_OURS = re.compile(r"^(?:model|ConfigContainer):[ ]*(?:#.*)?$", re.MULTILINE)
_HAS_SIZES = re.compile(r"^[ ]+(?:virtual_)?pipeline_model_parallel_\w+[ ]*:", re.MULTILINE)
_OVERRIDE = re.compile(
    r"\+{0,2}(?P<name>(?:model|train|ddp|optimizer|comm_overlap)\.\w+)=(?P<value>.*)",
    re.DOTALL,
)
_HAS_OVERRIDES = re.compile(r"(?<![\w.])model\.(?:virtual_)?pipeline_model_parallel_\w+=")
_IS_ANOTHER = re.compile(r"^(?:modules|system):", re.MULTILINE)
_BATCH = ("micro_batch_size", "global_batch_size")


def is_bridge(text: str) -> bool:
    """Return whether a text looks like a file of Megatron-Bridge."""
    if has_overrides(text) and "actor_rollout_ref" not in text:
        return True
    return bool(_IS_OURS.search(text) and _HAS_SIZES.search(text) and not _IS_ANOTHER.search(text))


def has_overrides(text: str) -> bool:
    """Return whether a text is a script with overrides, and not a YAML."""
    return bool(_HAS_OVERRIDES.search(text))


def bridge_section(text: str, name: str, file: str) -> Fields:
    """Return a section of a YAML, or the overrides of it in a script."""
    if has_overrides(text):
        overrides = bridge_overrides(text, file).items()
        values = {key.split(".")[1]: value for key, value in overrides if key.startswith(f"{name}.")}
        return Fields(values=values, file=file, path=name)
    return section_of(text, (*model_path(text, file)[:-1], name), file=file)


def bridge_overrides(text: str, file: str) -> dict[str, object]:
    """Return the overrides of a script by their names."""
    told = overrides_in(text, file, _OVERRIDE)
    return {name: decoded_override(value) for name, value in told.items() if value is not None}


def model_path(text: str, file: str) -> tuple[str, ...]:
    """Return where `model` stands: at the top, or in the section that older scripts have around everything."""
    return ("ConfigContainer", "model") if "ConfigContainer" in section_of(text, (), file=file) else ("model",)


def run_arguments(text: str, file: str, *, known: frozenset[str] = KNOWN) -> Arguments:
    """Return what a file says of the model and its batch, as arguments; a recipe has the batch where the file has not.

    Raises:
        InputError: a YAML with nothing of Megatron-Bridge, or one that cannot be read.
    """
    if not has_overrides(text):
        check_own_keys(section_of(text, (), file=file), ("model", "ConfigContainer"), title=TITLE)
    model, train = bridge_section(text, "model", file), bridge_section(text, "train", file)
    sizes = {key: train.values[key] for key in _BATCH if key in train}
    if sizes.get("global_batch_size") is None:  # which the recipe has, unlike Megatron-LM
        sizes = {}
    overlap = bridge_section(text, OVERLAP, file)  # which decides over the model's own
    pairs = {key: overlap.values[key] for key in (PAIRS, DELAYED) if overlap.values.get(key) is not None}
    lines = dict(model.lines)
    for section, told in ((train, sizes), (overlap, pairs)):
        lines |= {key: section.lines[key] for key in told if key in section.lines}
    return arguments_of({**model.values, **sizes, **pairs}, file=file, lines=lines, known=known)


def stated_in_bridge(text: str, file: str) -> StatedDegrees:
    """Return what a file says of the degrees."""
    sections = {name: bridge_section(text, name, file) for name in ("model", "train", "ddp", "optimizer")}
    values = {key: value for section in sections.values() for key, value in section.values.items()}
    lines = {key: line for section in sections.values() for key, line in section.lines.items()}
    return stated_degrees(arguments_of(values, file=file, lines=lines, known=OF_DEGREES), has_recipe=True)


def degree_sections(of_pipeline: Mapping[str, Setting], planned: PlannedDegrees) -> dict[str, dict[str, Setting]]:
    """Return all sections of a plan and its degrees; raises InputError for what cannot be set."""
    sections: dict[str, dict[str, Setting]] = {
        "model": {**of_pipeline, **degree_settings(planned), "seq_length": planned.sequence},
        "train": batch_settings(planned),
        "ddp": sharding_settings(planned),
        "optimizer": {"use_distributed_optimizer": planned.degrees.sharding is not Sharding.NOTHING},
    }
    if "use_megatron_fsdp" in sections["ddp"]:
        sections["dist"] = {"use_megatron_fsdp": True}
    return sections


def section_overrides(sections: Mapping[str, Mapping[str, Setting]]) -> list[tuple[str, Setting]]:
    """Return sections as overrides."""
    return [(f"{name}.{key}", value) for name, section in sections.items() for key, value in section.items()]


def dataset_note(planned: PlannedDegrees) -> str:
    """Return what else must fit the sequences of the degrees."""
    return _("the sequence length of the dataset must be {tokens} too", tokens=planned.sequence)
