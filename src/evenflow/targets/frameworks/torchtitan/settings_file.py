"""The settings of a run of torchtitan: its TOML file (0.2), a `config_registry.py`, or what it saves (JSON).

torchtitan writes the JSON to ``debug.save_config_file`` (0.3) or ``job.save_config_file`` (0.2).
"""

from evenflow.errors import InputError
from evenflow.fields import Fields, as_fields, load_json
from evenflow.profiles.toml_text import load_toml
from evenflow.profiles.yaml_file import optional_section
from evenflow.targets.frameworks.torchtitan.python_configuration import configuration_in, makes_configuration
from evenflow.targets.frameworks.torchtitan.values import BY_TOKENS, NEW, OLD


def settings_of_file(text: str, file: str) -> Fields:
    """Return the settings in a text.

    Raises:
        InputError: text that is neither TOML nor a JSON object, or Python that makes no configuration.
    """
    if is_json(text):
        return as_fields(load_json(text, file=file), file=file)
    if file.endswith(".py"):
        return as_fields(configuration_in(text, file=file), file=file)
    return as_fields(load_toml(text, file=file), file=file)


def is_json(text: str) -> bool:
    """Return whether a text can only be JSON."""
    return text.lstrip().startswith("{")


def told_version(text: str, file: str) -> str | None:
    """Return the version of torchtitan whose settings a text has: TOML and what 0.2 saves, or Python and what is saved
    from 0.3 on.
    """
    try:
        settings = settings_of_file(text, file)
    except InputError:
        return None
    if "model_spec" not in settings:
        return OLD
    return BY_TOKENS if counts_tokens(settings) else NEW


def counts_tokens(settings: Fields) -> bool:
    """Return whether settings count batches in tokens and microbatches, as after 0.3.0, and not in sequences."""
    training, parallelism = optional_section(settings, "training"), optional_section(settings, "parallelism")
    counts_sequences = "local_batch_size" in training or "pipeline_parallel_microbatch_size" in parallelism
    return "model_spec" in settings and not counts_sequences


def is_settings(text: str, file: str) -> bool:
    """Return whether a text looks like settings of torchtitan."""
    if file.endswith(".py"):
        return makes_configuration(text)
    try:
        values = settings_of_file(text, file).values
    except InputError:
        return False
    parallelism = values.get("parallelism")
    known = ("pipeline_parallel_degree", "module_fqns_per_model_part", "data_parallel_shard_degree")
    return isinstance(parallelism, dict) and any(key in parallelism for key in known)
