"""Plans with names, to be compared with each other, and the naive ones among them."""

from dataclasses import dataclass

from evenflow.baselines.even_plan import even_plan, strongest_kind
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, NONE, Communication, Network, Sizes
from evenflow.simulate import Simulation, simulate

_ALL, _NOTHING = "naive_all_recomp", "naive_no_recomp"
NAIVE_PLANS = (_ALL, _NOTHING)
"""Names of the naive plans: every layer under every recomputation that was measured, and none under any."""


@dataclass(frozen=True, kw_only=True)
class NamedPlan:
    """A simulated plan with a name."""

    name: str
    simulation: Simulation
    certificate: str = ""
    """How good the plan is, or what was done, in words; empty where there is nothing to say."""
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
    allow_empty: bool = True,
) -> list[NamedPlan | Skipped]:
    """Return the plans with layers dealt evenly, one with everything recomputed that was measured, one with nothing.

    Where full recomputation was not measured, every layer is under the `strongest_kind` instead, as in the original.
    With `allow_empty` there may be fewer layers than cells. `only_divisible` skips both where the layers do not divide
    by the number of cells. [SAPP guide]
    """
    cells = sizes.num_cells
    strongest = strongest_kind(network, sequence_splits=sizes.sequence_splits)
    results: list[NamedPlan | Skipped] = []
    for name, kind in zip(NAIVE_PLANS, (strongest, NONE), strict=True):
        if only_divisible and network.num_layers % cells:
            reason = _(
                "{num_layers} layers do not divide by the {cells} parts of the pipeline",
                num_layers=network.num_layers,
                cells=cells,
            )
            results.append(Skipped(name=name, reason=reason))
            continue
        if name == _ALL and kind == NONE:
            reason = _("the layer file has the memory of no recompute kind that may be used here")
            results.append(Skipped(name=name, reason=reason))
            continue
        try:
            plan = even_plan(network, sizes, schedule=schedule, recompute=kind, allow_empty=allow_empty)
        except InputError as error:
            results.append(Skipped(name=name, reason=error.message))
            continue
        simulation = simulate(network, plan, communication=communication)
        note = (
            ""
            if kind in (FULL, NONE)
            else _("every layer is under {kind}; full recomputation was not measured", kind=kind)
        )
        results.append(NamedPlan(name=name, simulation=simulation, certificate=note, picture=f"result_{name}.svg"))
    return results
