"""The settings of a run of torchtitan: its TOML file (0.2), or what it saves as its configuration (JSON).

torchtitan writes the JSON to ``debug.save_config_file`` (0.3) or ``job.save_config_file`` (0.2).
"""

from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, load_json
from evenflow.profiles.toml_text import load_toml
from evenflow.targets.frameworks.torchtitan.values import NEW, OLD


def settings_of_file(text: str, file: str) -> Fields:
    """Return the settings in a text.

    Raises:
        InputError: text that is neither TOML nor a JSON object.
    """
    if is_json(text):
        return as_fields(load_json(text, file=file), file=file)
    return as_fields(load_toml(text, file=file), file=file)


def is_json(text: str) -> bool:
    """Return whether a text can only be JSON."""
    return text.lstrip().startswith("{")


def told_version(text: str, file: str) -> str | None:
    """Return the version of torchtitan whose settings a text has: TOML and what 0.2 saves, or what 0.3 saves."""
    try:
        return NEW if "model_spec" in settings_of_file(text, file) else OLD
    except InputError:
        return None


def is_settings(text: str, file: str) -> bool:
    """Return whether a text looks like settings of torchtitan."""
    try:
        values = settings_of_file(text, file).values
    except InputError:
        return False
    parallelism = values.get("parallelism")
    known = ("pipeline_parallel_degree", "module_fqns_per_model_part", "data_parallel_shard_degree")
    return isinstance(parallelism, dict) and any(key in parallelism for key in known)
