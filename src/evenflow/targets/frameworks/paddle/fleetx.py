"""The settings of files for Paddle; those of PaddleFleetX under the names that PaddleFormers has for the same.

PaddleFleetX keeps them in the sections `Global`, `Model` and `Distributed`. It cuts into equally many layers where they
divide, and else into equally many entries [PaddleFleetX, `GPTForPretrainingPipe`].
"""

from collections.abc import Mapping

from evenflow.errors import InputError
from evenflow.fields import Fields, is_integer
from evenflow.language import _
from evenflow.profiles.yaml_file import load_object, optional_section
from evenflow.targets.entry_lists.settings import FileSettings, read_settings

_SECTIONS = ("hybrid_configs", "pipeline_configs", "pp_configs")
_NAMES: Mapping[str, Mapping[str, str]] = {
    "Global": {"micro_batch_size": "micro_batch_size", "accumulate_steps": "accumulate_steps"},
    "Model": {
        "num_layers": "num_hidden_layers",
        "virtual_pp_degree": "virtual_pp_degree",
        "use_recompute": "recompute",
        "recompute_granularity": "recompute_granularity",
        "no_recompute_layers": "no_recompute_layers",
    },
    "Distributed": {"dp_degree": "dp_degree", "mp_degree": "mp_degree", "pp_degree": "pp_degree"},
}
"""The keys that are read of every section, and their other names."""
_STEPS = "accumulate_steps"
BASE = "_base_"
"""The file that the other settings come from, which is not read."""


def settings_of(text: str, file: str) -> FileSettings:
    """Return the settings of a file of PaddleFleetX, of PaddleFormers, or of a strategy.

    Raises:
        InputError: text that is no object, a setting that is there twice, or batches that do not divide.
    """
    top = load_object(text, file=file)
    if "Distributed" not in top or not {"Global", "Model"} & set(top.values):
        return read_settings(text, file, sections=_SECTIONS)
    values: dict[str, object] = {}
    lines: dict[str, int] = {}
    for name, keys in _NAMES.items():
        section = optional_section(top, name)
        for key, own in keys.items():
            if section.values.get(key) is not None:
                values[own] = section.values[key]
                if key in section.lines:
                    lines[own] = section.lines[key]
    sharding = optional_section(optional_section(top, "Distributed"), "sharding")
    if sharding.values.get("sharding_degree") is not None:
        values |= {"sharding_degree": sharding.values["sharding_degree"]}
        values |= {"sharding": f"stage{sharding.values.get('sharding_stage', 1)}"}
    if top.values.get(BASE) is not None:
        values[BASE] = top.values[BASE]
    values |= _steps(optional_section(top, "Global"), values)
    values |= _method(values)
    return FileSettings(fields=Fields(values=values, file=file, lines=lines))


def _steps(section: Fields, values: Mapping[str, object]) -> dict[str, object]:
    """Return the microbatches of a step: the batch of a copy of the model by that of a microbatch."""
    local, micro = section.values.get("local_batch_size"), values.get("micro_batch_size")
    if local is None and is_integer(section.values.get("global_batch_size")) and values.get("dp_degree") == 1:
        local = section.values["global_batch_size"]
    if _STEPS in values or not is_integer(local) or not is_integer(micro) or micro < 1:
        return {}
    if local % micro:
        rule = _("must be a multiple of the microbatch ({size})", size=micro)
        raise InputError(value=local, rule=rule, place=section.place("local_batch_size"))
    return {_STEPS: local // micro}


def _method(values: Mapping[str, object]) -> dict[str, object]:
    layers, ranks = values.get("num_hidden_layers"), values.get("pp_degree")
    divides = not is_integer(layers) or not is_integer(ranks) or ranks < 1 or layers % ranks == 0
    return {"seg_method": "layer:TransformerDecoderLayer" if divides else "uniform"}
