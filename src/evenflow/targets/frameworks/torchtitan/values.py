"""What a plan is in torchtitan's own settings, whatever the syntax of the version."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from evenflow.model import FULL, NONE, Plan
from evenflow.predict.training import PRODUCTS
from evenflow.schedule import Schedule
from evenflow.targets.stages import layers_by_kind, stages_of
from evenflow.targets.torch.module_names import ModuleNames, names_per_part
from evenflow.targets.torch.order_csv import FILE_NAME, csv_order, is_v_shaped

TITLE = "torchtitan"
OLD, NEW, BY_TOKENS = "0.2.2", "0.3.0", "0.4.0"
"""The versions with a syntax of their own: TOML, Python, and Python that counts batches in tokens, as after 0.3.0."""
_NEW_NAMES = ModuleNames(first=("tok_embeddings",), last=("norm", "lm_head"))
_NAMES = {
    OLD: ModuleNames(first=("tok_embeddings",), last=("norm", "output")),
    NEW: _NEW_NAMES,
    BY_TOKENS: _NEW_NAMES,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchtitanSettings:
    """A plan in torchtitan's settings."""

    schedule: Schedule
    parallelism: Mapping[str, object]
    """TorchtitanSettings of the section `parallelism`, without the size of a microbatch."""
    layers_by_kind: Mapping[str, Sequence[int]]
    """Layers of the network under each recompute kind."""


def settings_of(plan: Plan, version: str) -> TorchtitanSettings:
    """Return the settings that run `plan`.

    Raises:
        InputError: an order that torchtitan cannot place or load.
    """
    schedule = csv_order(plan)
    # The CSV replaces the order; what is left of the name is where it puts the stages.
    named = (
        "ZBVZeroBubble" if is_v_shaped(schedule, title=TITLE) else "1F1B" if plan.num_chunks == 1 else "Interleaved1F1B"
    )
    stages = stages_of(plan, schedule.stage_ranks)
    return TorchtitanSettings(
        schedule=schedule,
        parallelism={
            "pipeline_parallel_degree": plan.num_ranks,
            "pipeline_parallel_schedule": named,
            "pipeline_parallel_schedule_csv": FILE_NAME,
            "module_fqns_per_model_part": names_per_part(stages, _NAMES[version]),
        },
        layers_by_kind=layers_by_kind(stages),
    )


def modes_of(layers_by_kind: Mapping[str, Sequence[int]]) -> dict[str, object]:
    """Return the settings of the section `activation_checkpoint` of 0.2, for one kind of all layers or none."""
    if PRODUCTS in layers_by_kind:
        return {"mode": "selective", "selective_ac_option": "op"}
    return {"mode": FULL if layers_by_kind else NONE}


def literal(value: object) -> str:
    """Return a number, a text or a list of lists of texts as TOML and Python both have it; of a list, a part a line.

    >>> print(literal([["norm", "output"]]))
    [
        ["norm", "output"],
    ]
    """
    if not isinstance(value, list):
        return json.dumps(value)
    return "\n".join(["[", *(f"    {json.dumps(part)}," for part in value), "]"])


def assignments(values: Mapping[str, object], prefix: str = "") -> Iterator[str]:
    """Yield a line ``key = value`` for each of `values`, in TOML and Python."""
    for key, value in values.items():
        yield f"{prefix}{key} = {literal(value)}"
