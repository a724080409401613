"""Plans with names, to be compared with each other, and the naive ones among them."""

from dataclasses import dataclass

from evenflow.baselines.even_plan import even_plan
from evenflow.errors import InputError
from evenflow.model import FULL, NONE, Communication, Network, Sizes
from evenflow.simulate import Simulation, simulate

NAIVE_KINDS = {"naive_all_recomp": FULL, "naive_no_recomp": NONE}
"""Recompute kind of all layers, by the name of the naive plan."""


@dataclass(frozen=True, kw_only=True)
class NamedPlan:
    """A simulated plan with a name."""

    name: str
    simulation: Simulation
    certificate: str = ""
    """Proof of how good the plan is, in words; empty where none is known."""
    picture: str | None = None
    """File name of the plan's picture; None where no picture is asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A named plan that cannot be made, and the reason."""

    name: str
    reason: str


def naive_plans(
    network: Network,
    sizes: Sizes,
    *,
    schedule: str,
    communication: Communication | None = None,
    only_divisible: bool = False,
) -> list[NamedPlan | Skipped]:
    """Return the plans with layers dealt evenly, one under full recomputation and one without any.

    `only_divisible` skips both where the layers do not divide by the number of cells. [SAPP guide]
    """
    cells = sizes.num_cells
    results: list[NamedPlan | Skipped] = []
    for name, kind in NAIVE_KINDS.items():
        if only_divisible and network.num_layers % cells:
            reason = f"{network.num_layers} layers do not divide by the {cells} cells (ranks x chunks)"
            results.append(Skipped(name=name, reason=reason))
            continue
        try:
            plan = even_plan(network, sizes, schedule=schedule, recompute=kind)
        except InputError as error:
            results.append(Skipped(name=name, reason=str(error)))
            continue
        simulation = simulate(network, plan, communication=communication)
        results.append(NamedPlan(name=name, simulation=simulation, picture=f"result_{name}.svg"))
    return results
