"""The plans that `evenflow compare` and the SAPP command set beside each other, and where their pictures go."""

from collections.abc import Callable, Sequence
from pathlib import Path, PurePath

from evenflow.baselines.named_plans import NAIVE_PLANS, NamedPlan, Skipped
from evenflow.errors import InputError
from evenflow.export.results.outcome_fields import RECOMMENDED
from evenflow.language import _
from evenflow.model import Communication, Network, Sizes
from evenflow.profiles.manual_file import read_manual_file
from evenflow.schedule import family_name
from evenflow.simulate import simulate
from evenflow.solve import Outcome

RECOMMENDED_PICTURE = "result.svg"
BESIDE = "Comparison_"
"""Prefix of the picture of a manual plan beside the recommended one. [SAPP-PPB]"""


def recommended_plan(outcome: Outcome) -> NamedPlan | None:
    """Return the plan of a solve; None without one."""
    if outcome.simulation is None:
        return None
    return NamedPlan(
        name=RECOMMENDED,
        simulation=outcome.simulation,
        certificate=outcome.certificate(),
        picture=RECOMMENDED_PICTURE,
    )


def manual_plans(
    path: Path,
    network: Network,
    sizes: Sizes,
    *,
    schedule_of_chunks: Callable[[int], str],
    communication: Communication | None = None,
    always_draw: bool = False,
) -> list[NamedPlan]:
    """Return the plans of a manual file; one with neither `file_name` nor `show` has no picture unless `always_draw`.

    Raises:
        InputError: a file that breaks a rule, also picture names that are no plain names or are taken.
    """
    entries = read_manual_file(
        path,
        network=network,
        num_ranks=sizes.num_ranks,
        num_microbatches=sizes.num_microbatches,
        schedule_of_chunks=lambda chunks: family_name(schedule_of_chunks(chunks)),
        num_chunks=sizes.num_chunks,
        sequence_splits=sizes.sequence_splits,
    )
    taken = {RECOMMENDED_PICTURE, *(f"result_{name}.svg" for name in NAIVE_PLANS)}
    plans = []
    for entry in entries:
        picture = entry.file_name or (f"{entry.name}.svg" if entry.show or always_draw else None)
        if picture is not None:
            _check_picture(picture, taken, place=f"{path}: {entry.name}.file_name")
            taken.add(picture)
        simulation = simulate(network, entry.plan, communication=communication)
        plans.append(NamedPlan(name=entry.name, simulation=simulation, picture=picture))
    return plans


def picture_option(name: str) -> str:
    """Return what messages call the picture of a plan."""
    return _("the picture of {name}", name=name)


def beside_option(name: str) -> str:
    """Return what messages call the picture of a plan beside the recommended one."""
    return _("the comparison of {plan}", plan=name)


def beside_paths(plans: Sequence[NamedPlan | Skipped], folder: Path) -> dict[str, Path]:
    """Return where the pictures of manual plans beside the recommended one go."""
    return {
        beside_option(plan.name): folder / f"{BESIDE}{plan.picture}"
        for plan in plans
        if isinstance(plan, NamedPlan) and plan.picture is not None and plan.name not in NAIVE_PLANS
    }


def picture_paths(plans: Sequence[NamedPlan | Skipped], folder: Path) -> dict[str, Path | None]:
    """Return where the pictures go, for the check before the solve."""
    return {
        picture_option(plan.name): folder / plan.picture
        for plan in plans
        if isinstance(plan, NamedPlan) and plan.picture is not None
    }


def _check_picture(name: str, taken: set[str], *, place: str) -> None:
    if name in taken:
        raise InputError(
            value=name, rule=_("must not be the picture of another plan"), place=place, remedy=_("choose another name")
        )
    if PurePath(name).name != name or name in {".", ".."} or "\\" in name:
        raise InputError(
            value=name,
            rule=_("must be the name of a file, without a folder"),
            place=place,
            remedy=_("leave out the folder: pictures go to the output folder"),
        )
