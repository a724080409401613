"""Plans that nobody solved for, to set beside the recommended one: naive ones, and those of a manual file."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath

from evenflow.baselines.even_plan import even_plan
from evenflow.errors import InputError
from evenflow.model import FULL, NONE, Communication, Network, Sizes
from evenflow.profiles.manual_file import read_manual_file
from evenflow.schedule import family_name
from evenflow.simulate import Simulation, simulate

RECOMMENDED = "recommended"
RECOMMENDED_PICTURE = "result.svg"
_NAIVE = {
    "naive_all_recomp": (FULL, "result_naive_all_recomp.svg"),
    "naive_no_recomp": (NONE, "result_naive_no_recomp.svg"),
}
"""Recompute kind and picture by name."""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A plan with a name, simulated."""

    name: str
    simulation: Simulation
    picture: str | None
    """File name of its picture in the output folder; None when none is asked for."""
    certificate: str = ""
    """How good it is proven to be, where that is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A strategy that cannot be made, and why."""

    name: str
    reason: str


def naive_strategies(
    network: Network,
    sizes: Sizes,
    *,
    schedule: str,
    communication: Communication | None = None,
    only_divisible: bool = False,
) -> list[Strategy | Skipped]:
    """Layers dealt evenly with everything recomputed, and with nothing.

    `only_divisible` skips both where the layers do not divide by the number of cells. [SAPP guide]
    """
    cells = sizes.num_cells
    results: list[Strategy | Skipped] = []
    for name, (kind, picture) in _NAIVE.items():
        if only_divisible and network.num_layers % cells:
            reason = f"{network.num_layers} layers do not divide by the {cells} cells (ranks x chunks)"
            results.append(Skipped(name=name, reason=reason))
            continue
        try:
            plan = even_plan(network, sizes, schedule=schedule, recompute=kind)
        except InputError as error:
            results.append(Skipped(name=name, reason=f"{error.rule}; {error.remedy}" if error.remedy else error.rule))
            continue
        simulation = simulate(network, plan, communication=communication)
        results.append(Strategy(name=name, simulation=simulation, picture=picture))
    return results


def manual_strategies(
    path: Path,
    network: Network,
    sizes: Sizes,
    *,
    schedule_of_chunks: Callable[[int], str],
    communication: Communication | None = None,
    always_draw: bool = False,
) -> list[Strategy | Skipped]:
    """The strategies of a manual file; one whose `show` is false has no picture unless `always_draw`.

    Raises InputError for a file that breaks a rule, also for picture names that are no plain names or are taken.
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
    taken = {RECOMMENDED_PICTURE, *(picture for _, picture in _NAIVE.values())}
    results: list[Strategy | Skipped] = []
    for entry in entries:
        plan = entry.plan
        picture = (entry.file_name or f"{entry.name}.svg") if entry.show or always_draw else None
        if picture is not None:
            _check_picture(picture, taken, place=f"{path}: {entry.name}.file_name")
            taken.add(picture)
        simulation = simulate(network, plan, communication=communication)
        results.append(Strategy(name=entry.name, simulation=simulation, picture=picture))
    return results


def pictures(strategies: Sequence[Strategy | Skipped], folder: Path) -> dict[str, Path | None]:
    """Where the pictures go, by strategy, for the check before the solve."""
    return {
        f"the picture of {strategy.name}": folder / strategy.picture
        for strategy in strategies
        if isinstance(strategy, Strategy) and strategy.picture is not None
    }


def _check_picture(name: str, taken: set[str], *, place: str) -> None:
    if name in taken:
        raise InputError(value=name, rule="every strategy has a picture of its own", place=place, remedy="rename it")
    if PurePath(name).name != name or name in {".", ".."} or "\\" in name:
        raise InputError(
            value=name,
            rule="the name of a file, without a folder",
            place=place,
            remedy="pictures go to the output folder",
        )
