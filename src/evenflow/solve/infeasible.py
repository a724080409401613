"""Explanations of why no plan fits in memory, with advice on changes that would help."""

from dataclasses import replace

import numpy as np

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import BOTH, COMM, FULL, SELECT, Request
from evenflow.schedule import FAMILIES
from evenflow.solve.group_choice import least_group_size
from evenflow.solve.memory.least_memory import LeastMemory, least_memory
from evenflow.solve.outcome import Infeasibility, Outcome, Status
from evenflow.solve.problem import Problem, make_problem
from evenflow.solve.restrictions import Restrictions
from evenflow.units import megabytes

_ALTERNATIVE_SECONDS = 3.0
"""Most seconds for the least memory of one alternative."""


def explain(problem: Problem, least: LeastMemory, *, seconds: float, advise: bool = True) -> Outcome:
    """Return the outcome for a problem whose least memory exceeds its limit; with `advise`, alternatives are tried."""
    peaks = problem.rank_memory(problem.costs(least.counts))
    return Outcome(
        status=Status.INFEASIBLE,
        simulation=None,
        lower_bound_ns=0,
        memory_limit_bytes=problem.memory_limit_bytes,
        solve_seconds=seconds,
        infeasibility=Infeasibility(
            rank=int(np.argmax(peaks)),
            smallest_limit_bytes=least.peak_bytes,
            proven=least.proven,
            advice=tuple(advice_for(problem)) if advise else (),
        ),
        restrictions=Restrictions.of(problem.request, schedule=problem.schedule.name),
    )


def advice_for(problem: Problem, *, schedules: bool = True) -> list[str]:
    """Return a sentence on each change that was tried or is missing; without `schedules`, none on other schedules."""
    request, schedule = problem.request, problem.schedule.name
    sizes, usual = request.sizes, replace(request, group_size=None)
    link, network = request.network.host_link, request.network
    if link is not None:  # numbers of actions by cell say nothing of other cells
        network = replace(network, host_link=replace(link, cell_ahead=()))
    free = replace(usual, layers=None, network=network)
    variants: list[tuple[str, str, Request]] = []
    if request.layers is not None:
        variants.append((_("another split of the layers"), schedule, replace(request, layers=None)))
    if not request.network.is_free:
        unruled = replace(request, network=request.network.without_rules())
        variants.append((_("layers without their rules for stages"), schedule, unruled))
    if schedules and sizes.num_chunks > 1 and schedule == "interleaved":
        name = _("the less-memory variant of the schedule")
        variants.append((name, "interleaved-less-memory", usual))
    least = least_group_size(request, schedule)
    if schedules and least is not None and least != request.group_size:
        name = _("groups of {size} microbatches", size=least)
        variants.append((name, schedule, replace(request, group_size=least)))
    if schedules and schedule != "1f1b":
        one_chunk = replace(free, sizes=replace(sizes, num_chunks=1))
        variants.append((_("1F1B with one chunk per rank"), "1f1b", one_chunk))
    if sizes.sequence_splits > 1 and schedule in FAMILIES:
        whole = replace(usual, sizes=replace(sizes, sequence_splits=1))
        variants.append((_("whole sequences"), schedule, whole))
    if not request.network.ranks and not (link and link.keepers):  # what sets ranks apart is not known of more of them
        more_ranks = replace(free, sizes=replace(sizes, num_ranks=2 * sizes.num_ranks))
        variants.append((_("{num_ranks} ranks", num_ranks=2 * sizes.num_ranks), schedule, more_ranks))
    advice = []
    for change, name, variant in variants:
        needed = _least_bytes(variant, schedule=name)
        if needed is not None:
            needed_mb = megabytes(needed)
            advice.append(
                _("{change} would fit, needing {needed_mb:,.0f} MB", change=change, needed_mb=needed_mb)
                if needed <= problem.limit
                else _("{change} would still not fit, needing {needed_mb:,.0f} MB", change=change, needed_mb=needed_mb)
            )
    missing = [kind for kind in (FULL, BOTH, SELECT, COMM) if kind not in problem.kinds]
    if sizes.sequence_splits > 1 and FULL in missing:
        missing.remove(FULL)
    if missing:
        advice.append(
            _("recompute kinds that the network does not offer might help: {names}", names=", ".join(missing))
        )
    return advice


def _least_bytes(request: Request, *, schedule: str) -> int | None:
    """Return the least memory of a request in another arrangement, or None where the arrangement is not possible."""
    try:
        other = make_problem(request, schedule=schedule)
    except InputError:
        return None
    return least_memory(other, seconds=_ALTERNATIVE_SECONDS, exact=False).peak_bytes
