"""evenflow: plans for pipeline-parallel training, proven, drawn, and written for your framework.

import evenflow

outcome = evenflow.plan("examples/llama2_70b.json", num_ranks=8, num_microbatches=32, memory_limit_bytes=56 * 2**30)
print(outcome)

Every name here is loaded when it is first used, so importing evenflow stays cheap. `evenflow.auto` (two-level planning)
and `evenflow.run` (training as planned) have public names of their own.
"""

import importlib
import sys
from types import ModuleType

from evenflow.network_files import read_networks_with
from evenflow.notebook import print_with, show_with

TYPE_CHECKING = False  # as type checkers know it, without the time that `typing` takes
if TYPE_CHECKING:
    from typing import Any

    from evenflow import auto, errors, run
    from evenflow.draw import comparison_svg, timeline_svg
    from evenflow.model import Communication, EndBlock, HostLink, Layer, LayerRun, Mode, Network, Plan, with_offload
    from evenflow.predict.by_name import predict
    from evenflow.predict.limits.smallest_change import Change, Setting, smallest_change
    from evenflow.predict.memory import Held, RankMemory
    from evenflow.predict.prediction import PartTime, Prediction
    from evenflow.predict.training import Degrees, Sharding, Software, Training
    from evenflow.predict.transformer import Biases, Experts, LatentAttention, Norms, Transformer
    from evenflow.profiles.accelerator_file import read_accelerator_file
    from evenflow.profiles.cluster_file import read_cluster_file
    from evenflow.profiles.layer_file import read_layer_file
    from evenflow.profiles.mesh_plan_file import read_mesh_plan
    from evenflow.profiles.plan_file import read_host_link, read_plan_file
    from evenflow.profiles.transformer.config_file import read_transformer
    from evenflow.profiles.transformer.numbers import Described
    from evenflow.report.of_values import report_page
    from evenflow.schedule import FAMILIES, Schedule, format_schedule, make_schedule, parse_schedule
    from evenflow.simulate import Simulation, simulate
    from evenflow.solve import BestOutcome, BindingLimit, Infeasibility, Outcome, Progress, Status, plan_best
    from evenflow.solve.clock import reproducible
    from evenflow.solve.order.alternate import plan_any_order
    from evenflow.solve.order.order_search import OrderOutcome, search_order
    from evenflow.solve.order.ordered_outcome import OrderedOutcome
    from evenflow.solve.plan import plan
    from evenflow.targets.fitting import Fitted
    from evenflow.targets.frameworks.mindformers.block import format_mindformers
    from evenflow.targets.frameworks.mindformers.training_yaml import apply_plan
    from evenflow.targets.losses import Loss
    from evenflow.targets.planning import fit_plan, plan_for_target, write_plan
    from evenflow.targets.target import Piece, Written
    from evenflow.targets.tuning import tune
    from evenflow.tune.candidate import Candidate
    from evenflow.tune.tuned import Tuned
    from evenflow_torch.profile import profile, profile_config
    from evenflow_torch.results.sharding_fields import format_sharding

__version__ = "0.2.0"

__all__ = [
    "FAMILIES",
    "BestOutcome",
    "Biases",
    "BindingLimit",
    "Candidate",
    "Change",
    "Communication",
    "Degrees",
    "Described",
    "EndBlock",
    "Experts",
    "Fitted",
    "Held",
    "HostLink",
    "Infeasibility",
    "LatentAttention",
    "Layer",
    "LayerRun",
    "Loss",
    "Mode",
    "Network",
    "Norms",
    "OrderOutcome",
    "OrderedOutcome",
    "Outcome",
    "PartTime",
    "Piece",
    "Plan",
    "Prediction",
    "Progress",
    "RankMemory",
    "Schedule",
    "Setting",
    "Sharding",
    "Simulation",
    "Software",
    "Status",
    "Training",
    "Transformer",
    "Tuned",
    "Written",
    "apply_plan",
    "auto",
    "comparison_svg",
    "errors",
    "fit_plan",
    "format_mindformers",
    "format_schedule",
    "format_sharding",
    "make_schedule",
    "parse_schedule",
    "plan",
    "plan_any_order",
    "plan_best",
    "plan_for_target",
    "predict",
    "profile",
    "profile_config",
    "read_accelerator_file",
    "read_cluster_file",
    "read_host_link",
    "read_layer_file",
    "read_mesh_plan",
    "read_plan_file",
    "read_transformer",
    "report_page",
    "reproducible",
    "run",
    "search_order",
    "simulate",
    "smallest_change",
    "timeline_svg",
    "tune",
    "with_offload",
    "write_plan",
]

_FACES = ("auto", "errors", "run")
"""Modules with public names of their own."""

_HOMES = {
    "comparison_svg": "evenflow.draw",
    "timeline_svg": "evenflow.draw",
    "format_mindformers": "evenflow.targets.frameworks.mindformers.block",
    "apply_plan": "evenflow.targets.frameworks.mindformers.training_yaml",
    "Communication": "evenflow.model",
    "EndBlock": "evenflow.model",
    "HostLink": "evenflow.model",
    "with_offload": "evenflow.model",
    "Layer": "evenflow.model",
    "LayerRun": "evenflow.model",
    "Mode": "evenflow.model",
    "Network": "evenflow.model",
    "Plan": "evenflow.model",
    "read_accelerator_file": "evenflow.profiles.accelerator_file",
    "read_cluster_file": "evenflow.profiles.cluster_file",
    "predict": "evenflow.predict.by_name",
    "Change": "evenflow.predict.limits.smallest_change",
    "Setting": "evenflow.predict.limits.smallest_change",
    "smallest_change": "evenflow.predict.limits.smallest_change",
    "Held": "evenflow.predict.memory",
    "RankMemory": "evenflow.predict.memory",
    "PartTime": "evenflow.predict.prediction",
    "Prediction": "evenflow.predict.prediction",
    "Degrees": "evenflow.predict.training",
    "Sharding": "evenflow.predict.training",
    "Software": "evenflow.predict.training",
    "Training": "evenflow.predict.training",
    "Biases": "evenflow.predict.transformer",
    "Experts": "evenflow.predict.transformer",
    "LatentAttention": "evenflow.predict.transformer",
    "Norms": "evenflow.predict.transformer",
    "Transformer": "evenflow.predict.transformer",
    "read_host_link": "evenflow.profiles.plan_file",
    "read_layer_file": "evenflow.profiles.layer_file",
    "read_plan_file": "evenflow.profiles.plan_file",
    "read_mesh_plan": "evenflow.profiles.mesh_plan_file",
    "read_transformer": "evenflow.profiles.transformer.config_file",
    "Described": "evenflow.profiles.transformer.numbers",
    "report_page": "evenflow.report.of_values",
    "FAMILIES": "evenflow.schedule",
    "Schedule": "evenflow.schedule",
    "format_schedule": "evenflow.schedule",
    "make_schedule": "evenflow.schedule",
    "parse_schedule": "evenflow.schedule",
    "Simulation": "evenflow.simulate",
    "simulate": "evenflow.simulate",
    "BestOutcome": "evenflow.solve",
    "BindingLimit": "evenflow.solve",
    "Infeasibility": "evenflow.solve",
    "Outcome": "evenflow.solve",
    "Progress": "evenflow.solve",
    "Status": "evenflow.solve",
    "plan_best": "evenflow.solve",
    "reproducible": "evenflow.solve.clock",
    "fit_plan": "evenflow.targets.planning",
    "Fitted": "evenflow.targets.fitting",
    "Loss": "evenflow.targets.losses",
    "plan_for_target": "evenflow.targets.planning",
    "write_plan": "evenflow.targets.planning",
    "Piece": "evenflow.targets.target",
    "Written": "evenflow.targets.target",
    "OrderedOutcome": "evenflow.solve.order.ordered_outcome",
    "plan_any_order": "evenflow.solve.order.alternate",
    "OrderOutcome": "evenflow.solve.order.order_search",
    "search_order": "evenflow.solve.order.order_search",
    "plan": "evenflow.solve.plan",
    "tune": "evenflow.targets.tuning",
    "Candidate": "evenflow.tune.candidate",
    "Tuned": "evenflow.tune.tuned",
}
"""The module from which each public name is loaded."""

_WITH_TORCH = {"format_sharding": "results.sharding_fields", "profile": "profile", "profile_config": "profile"}
"""Likewise for names of the package evenflow-torch, without its own name."""


def __getattr__(name: str) -> "Any":
    """Load a public name when it is first used, so that importing evenflow stays cheap."""
    if name in _FACES:
        return importlib.import_module(f"evenflow.{name}")
    if name in _WITH_TORCH:
        door = importlib.import_module("evenflow.torch_house")
        return getattr(door.torch_house(_WITH_TORCH[name], place=f"evenflow.{name}"), name)
    if name not in _HOMES:
        raise AttributeError(f"module 'evenflow' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return sorted({*globals(), *__all__})


def _in_notebook(value: object) -> "str | None":
    """Return how a notebook shows a value, as the report that is loaded now."""
    made: str | None = importlib.import_module("evenflow.report.of_values").notebook_html(value)
    return made


def _as_text(value: object) -> "str | None":
    """Return what a value is printed as, as the answer of its verb."""
    said: str | None = importlib.import_module("evenflow.cli.text.outcome_text").outcome_text(value)
    return said


def _in_file(path: str) -> object:
    """Return the network in a layer file, whose reader is loaded now."""
    return importlib.import_module("evenflow.profiles.layer_file").read_layer_file(path)


show_with(_in_notebook)
print_with(_as_text)
read_networks_with(_in_file)


class _Facade(ModuleType):
    """This module, in which `predict`, `simulate` and `tune` are functions, not the subpackages of these names."""

    def __setattr__(self, name: str, value: object) -> None:
        if name not in ("predict", "simulate", "tune") or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Facade
