"""Read overrides with Hydra itself, those for verl into its own configuration. Runs in an environment without evenflow.

Reads a JSON list of pairs from stdin, the name of a framework and a list of overrides; writes for each an object of
values by key, or the message of the error.
"""

import importlib.util
import json
import sys
from copy import deepcopy
from pathlib import Path

from hydra import compose, initialize_config_dir
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import DictConfig, OmegaConf

REFERENCE = (
    "actor_rollout_ref.ref.megatron.pipeline_model_parallel_size",
    "actor_rollout_ref.ref.megatron.override_transformer_config.pipeline_model_parallel_layout",
)
"""What the reference model of verl takes over from the actor."""


def configuration_of_verl() -> DictConfig:
    """Return verl's own configuration of training on Megatron-LM."""
    verl = importlib.util.find_spec("verl")
    assert verl is not None
    assert verl.submodule_search_locations
    folder = Path(verl.submodule_search_locations[0]) / "trainer" / "config"
    with initialize_config_dir(str(folder), version_base=None):
        return compose("ppo_trainer", overrides=["model_engine=megatron"])


def read(words: list[str], configuration: DictConfig | None) -> object:
    """Return the values of overrides by key, after they are put into a configuration, if there is one; the message
    where Hydra refuses one.
    """
    try:
        overrides = OverridesParser.create().parse_overrides(words)
        if configuration is None:
            return {override.key_or_group: override.value() for override in overrides}
        configuration = deepcopy(configuration)
        OmegaConf.set_struct(configuration, True)
        ConfigLoaderImpl._apply_overrides_to_config(overrides, configuration)
    except HydraException as error:
        return str(error)
    keys = [*(override.key_or_group for override in overrides), *REFERENCE]
    values = {key: OmegaConf.select(configuration, key) for key in keys}
    return {
        key: OmegaConf.to_container(value) if OmegaConf.is_config(value) else value for key, value in values.items()
    }


if __name__ == "__main__":
    of_verl = configuration_of_verl()
    cases = json.load(sys.stdin)
    json.dump([read(words, of_verl if name == "verl" else None) for name, words in cases], sys.stdout)
