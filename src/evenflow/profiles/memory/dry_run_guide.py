"""Which dry runs to do, so that their memory peaks determine the memory of every part. [SAPP guide, 有解配置]"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import KNOWN_KINDS, NONE, Plan, cells
from evenflow.model.peak_error import CONSTANT, HEAD, PARAMETER, TAIL
from evenflow.profiles.memory.design import DesignTask, IntArray, find_design
from evenflow.profiles.memory.equations import coefficients
from evenflow.profiles.memory.least_squares import solve

FEWEST_RANKS = 4
"""With 2 ranks there is no middle one. With 3 there is one, on which every layer has two microbatches in flight, so
that the parameters of a layer cannot be told from its activation."""

_MOST_RANKS = 1000
_MOST_LAYERS = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Guide:
    """The dry runs to do, and how well their peaks determine the unknowns."""

    rounds: tuple[Plan, ...]
    """Plans of the dry runs, all with the same ranks: those asked for, or more for 2 and 3 ranks."""
    unknowns: tuple[str, ...]
    """Names: constant, parameter, activation of no recomputation and of each kind, head, tail."""
    condition_number: float
    """Condition number of the equations of all needed peaks with columns of length one, as `fit_memory` gives it."""
    standard_errors: Mapping[str, float]
    """Standard error of each unknown where that of a peak is 1: of the memory of one layer, and of the activations of
    one microbatch."""

    @property
    def num_ranks(self) -> int:
        """Pipeline ranks of the dry runs."""
        return self.rounds[0].num_ranks


def find_dry_runs(num_ranks: int, num_layers: int, kinds: Collection[str]) -> Guide:
    """Return the fewest dry runs that determine the memory, and of these the best found.

    With K kinds the middle ranks have 3 + K unknowns: constant, parameter, activation without recomputation and with
    each kind. A round has ``num_ranks - 2`` middle ranks, so ``ceil((3 + K) / (num_ranks - 2))`` rounds are needed.
    They are always enough: give one middle rank two layers and K + 2 others one, whose kinds are all different but
    for two ranks with different numbers of microbatches in flight. Those two tell their kind's activation from
    constant + parameter, the others give the remaining activations, and the rank with two layers the parameter.
    What is left of the peaks of the first and the last rank of the first round is head and tail.

    Among designs with so few rounds, the search looks for a small condition number (see `design`). MindFormers can
    express every round.

    For fewer than `FEWEST_RANKS` ranks the dry runs have more: as many as make one round enough, where there are
    layers for them. The memory of a layer does not depend on the number of ranks, and a dry run needs no devices.

    Args:
        num_ranks: pipeline ranks, 2 or more.
        num_layers: body layers, more than ranks.
        kinds: recompute kinds to plan with, of ``full``, ``both``, ``select``, ``comm``.

    Raises:
        InputError: sizes or kinds outside of this.
    """
    chosen = _checked_kinds(kinds)
    check_ranks(num_ranks)
    check_layers(num_layers, num_ranks=num_ranks)
    num_middle_unknowns = 3 + len(chosen)
    if num_ranks < FEWEST_RANKS:
        num_ranks = min(num_middle_unknowns + 2, num_layers - 1)
    task = DesignTask(
        num_rounds=-(-num_middle_unknowns // (num_ranks - 2)),
        num_ranks=num_ranks,
        num_layers=num_layers,
        kinds=(NONE, *chosen),
    )
    rounds = tuple(_plan(counts, task.kinds) for counts in find_design(task))
    unknowns = (CONSTANT, PARAMETER, NONE, *chosen, HEAD, TAIL)
    rows = [
        coefficients(plan, rank, unknowns)
        for index, plan in enumerate(rounds)
        for rank in measured_ranks(num_ranks, round_index=index)
    ]
    solution = solve(np.array(rows, dtype=np.float64), np.zeros(len(rows)))
    return Guide(
        rounds=rounds,
        unknowns=unknowns,
        condition_number=solution.condition_number,
        standard_errors=dict(zip(unknowns, np.linalg.norm(solution.weights, axis=1).tolist(), strict=True)),
    )


def measured_ranks(num_ranks: int, *, round_index: int) -> range:
    """Return the ranks whose peaks are needed: all of the first round, the middle ones of the others."""
    return range(num_ranks) if round_index == 0 else range(1, num_ranks - 1)


def check_ranks(num_ranks: int) -> None:
    """Refuse a number of pipeline ranks that is too small or too large."""
    if not 2 <= num_ranks <= _MOST_RANKS:
        raise InputError(value=num_ranks, rule=_("must be from 2 to {limit}", limit=_MOST_RANKS), place="ranks")


def check_layers(num_layers: int, *, num_ranks: int) -> None:
    """Refuse body layers that are too few for `num_ranks`, or too many."""
    if num_layers > _MOST_LAYERS:
        raise InputError(value=num_layers, rule=_("must be at most {limit}", limit=_MOST_LAYERS), place="layers")
    fewest = max(num_ranks, FEWEST_RANKS) + 1
    if num_layers >= fewest:
        return
    if num_layers == num_ranks:
        rule = _(
            "must be more than the ranks: with one layer on every rank, the parameters of a layer cannot be told from "
            "the constant that every rank has"
        )
    elif num_layers < num_ranks:
        rule = _("must be at least one for each of the {num_ranks} ranks", num_ranks=num_ranks)
    else:
        rule = _(
            "must be at least {fewest}, because dry runs need {fewest_ranks} ranks or more to determine the memory",
            fewest=fewest,
            fewest_ranks=FEWEST_RANKS,
        )
    remedy = _("dry-run the model with more layers of the same kind, {fewest} or more", fewest=fewest)
    raise InputError(value=num_layers, rule=rule, place="layers", remedy=remedy)


def _plan(counts: IntArray, kinds: tuple[str, ...]) -> Plan:
    """Return the dry run of one round, from layers ``[rank][kind]``."""
    return Plan(
        schedule="1f1b",
        num_microbatches=len(counts),
        layers=cells([counts.sum(axis=1).tolist()]),
        recompute={
            kind: cells([of_kind.tolist()])
            for kind, of_kind in zip(kinds, counts.T, strict=True)
            if kind != NONE and of_kind.any()
        },
    )


def _checked_kinds(kinds: Collection[str]) -> tuple[str, ...]:
    """Return `kinds` in cell order."""
    for kind in kinds:
        if kind not in KNOWN_KINDS:
            raise InputError(
                value=kind, rule=_("must be some of {names}", names=", ".join(KNOWN_KINDS)), place=_("recompute kinds")
            )
    return tuple(kind for kind in KNOWN_KINDS if kind in kinds)
