"""A plan as the fragment of a MindFormers configuration that a user pastes.

    To put in yaml configuration:
    # with num_layers 96 and use_parallel True
    model:
      model_config:
        offset: [[-1, 0, 0, …], …]
    …

It has all that the plan decides, the values that `apply_plan` writes into a training YAML. Every list stands on one
line with a row for each chunk, so that programs find the lines of the original's block.
[SAPP guide, Step 5]
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import islice

import numpy as np

from evenflow.export.mindformers import mindformers_lists
from evenflow.language import _
from evenflow.model import NONE, OFFLOAD, SET_JOINT, Network, Plan, cells, moves, ordered_kinds
from evenflow.profiles.yaml_text import block_text, nested
from evenflow.targets.frameworks.mindformers.module_sets import has_sets, patterns_of
from evenflow.targets.frameworks.mindformers.swap import unfused_note
from evenflow.targets.frameworks.mindformers.values import check_writable, environment, training_values, why_not


def format_mindformers(plan: Plan, *, without_environment: str = "") -> str:
    """Return `fragment` under the headline of the original's block.

    Raises:
        InputError: as `check_writable` does.
    """
    return "To put in yaml configuration:\n" + fragment(plan, without_environment=without_environment)


def fragment(plan: Plan, *, without_environment: str = "", more: Mapping[str, object] | None = None) -> str:
    """Return the YAML, with comments on what it needs and on what MindFormers refuses in it.

    `more` has further values by dotted key. `without_environment` says, after "without it", what runs where the
    environment variable is not set.

    Raises:
        InputError: as `check_writable` does.
    """
    values = block_text(nested({**training_values(plan), **(more or {})}))
    comments = [_("with num_layers {count} and use_parallel True", count=plan.num_layers)]
    for name, value in environment(plan).items():
        needed = _("with the environment variable {setting}", setting=f"{name}={value}")
        if without_environment:
            needed = _("{needed}: without it {consequence}", needed=needed, consequence=without_environment)
        comments.append(needed)
    if has_sets(plan):
        comments.append(_("with use_legacy False: sets of modules are by the names of newer models"))
    if any(map(moves, plan.used_kinds)):
        comments.append(_("newer models (use_legacy False) read swap in model_config, older ones in swap_config"))
    if any(OFFLOAD in kind.split(SET_JOINT) for kind in plan.used_kinds):
        comments.append(unfused_note())
    if plan.sequence_splits > 1:
        comments.append(_("with use_legacy True: newer models do not split sequences"))
    refused = why_not(plan)
    if refused is not None:
        comments.append(_("MindFormers refuses this plan: {reason}", reason=str(refused)))
    return "".join(f"# {comment}\n" for comment in comments) + values


def format_bodies(network: Network, plan: Plan) -> str:
    """Return offset and recompute lists of each kind of body layer alone; nothing where there is only one kind.

    Raises:
        InputError: as `check_writable` does.
    """
    check_writable(plan)
    bodies = body_plans(network, plan)
    if len(bodies) < 2 or any(map(moves, plan.used_kinds)):  # beside what moves there are no lists of counts
        return ""
    lines = []
    for name, body in bodies.items():
        lines.append("")
        lines.append(
            _("{name} alone, {part} of {count} layers:", name=name, part=body.num_layers, count=plan.num_layers)
        )
        for key, table in mindformers_lists(body).items():
            if key == "select_recompute" and has_sets(plan):
                lines += [f"  {key}, {pattern}: {counts}" for pattern, counts in patterns_of(body).items()]
            else:
                lines.append(f"  {key}: {[list(row) for row in table]}")
    return "\n".join(lines) + "\n"


def body_plans(network: Network, plan: Plan) -> Mapping[str, Plan]:
    """Return by the name of its layers the part of `plan` that each BODY entry of a layer file has in every cell.

    Entries with one name are one. `plan` must be one of `network`, with every chunk on all ranks in turn.
    """
    names = iter([layer.name for layer in network.layers])
    kinds = ordered_kinds(set(plan.recompute))
    tables = {
        run.layer.name: {kind: [[0] * plan.num_ranks for _ in range(plan.num_chunks)] for kind in kinds}
        for run in network.runs
    }
    for chunk in range(plan.num_chunks):
        for rank in range(plan.num_ranks):
            for kind in kinds:
                for name in islice(names, plan.count(kind, chunk, rank)):
                    tables[name][kind][chunk][rank] += 1
    return {
        name: replace(
            plan,
            layers=cells(np.sum(list(by_kind.values()), axis=0).tolist()),
            recompute={kind: cells(table) for kind, table in by_kind.items() if kind != NONE},
        )
        for name, by_kind in tables.items()
    }
