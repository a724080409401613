"""A plan written into the training YAML of a MindFormers user, whose file is otherwise unchanged, byte for byte."""

from collections.abc import Mapping

from evenflow.errors import InputError
from evenflow.export.train_yaml import BOM, apply_to_training_yaml, value_at
from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.training_file import LAYER_KEYS
from evenflow.profiles.yaml_values import load_document
from evenflow.targets.frameworks.mindformers.module_sets import has_sets
from evenflow.targets.frameworks.mindformers.swap import in_file
from evenflow.targets.frameworks.mindformers.values import training_values, why_not

_PATTERN_KEYS = ("select_recompute", "select_comm_recompute")


def apply_plan(text: str, *, file: str, plan: Plan) -> str:
    """Return the training YAML `text` with everything that `plan` decides (see `training_values`).

    Where the file names the operators of ``select_recompute`` or ``select_comm_recompute`` by patterns, the patterns
    stay and get the plan's counts; a plan of sets of modules has patterns of its own.

    Raises:
        InputError: as `training_values` and `apply_to_training_yaml` do; a plan that MindFormers refuses (see
            `why_not`); a file with another number of layers than the plan; sets of modules for an older model.
    """
    values: dict[str, object] = dict(training_values(plan))
    refused = why_not(plan)
    if refused is not None:
        raise refused
    document = load_document(text.removeprefix(BOM), file=file).value
    for key in LAYER_KEYS:
        given = value_at(document, ("model", "model_config", key))
        if isinstance(given, int) and given != plan.num_layers:
            rule = _("must be the number of layers of the plan ({num_layers})", num_layers=plan.num_layers)
            raise InputError(value=given, rule=rule, place=f"{file}: model.model_config.{key}")
    values = in_file(values, document)
    if has_sets(plan) and value_at(document, ("use_legacy",)) is not False:
        rule = _("must be false for sets of modules: the names are those of newer models")
        raise InputError(value=value_at(document, ("use_legacy",)), rule=rule, place=f"{file}: use_legacy")
    for name in _PATTERN_KEYS:
        key = f"recompute_config.{name}"
        patterns = value_at(document, key.split("."))
        if isinstance(values[key], Mapping):  # patterns of modules, which the plan decides
            continue
        if isinstance(patterns, Mapping) or (
            isinstance(patterns, list) and patterns and all(isinstance(item, str) for item in patterns)
        ):
            values[key] = dict.fromkeys(patterns, values[key] or [])
    return apply_to_training_yaml(text, file=file, values=values)
