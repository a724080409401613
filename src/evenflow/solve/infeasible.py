"""Why no plan fits, and what would help."""

import numpy as np

from evenflow.errors import InputError
from evenflow.model import BOTH, COMM, FULL, SELECT, Cells
from evenflow.solve.outcome import Infeasibility, Outcome, Status
from evenflow.solve.problem import Problem, make_problem
from evenflow.solve.start import LeastMemory, least_memory
from evenflow.units import megabytes

_ALTERNATIVE_SECONDS = 3.0


def explain(problem: Problem, least: LeastMemory, *, seconds: float, advise: bool = True) -> Outcome:
    """The outcome for a problem whose least memory exceeds its limit; to `advise` tries alternatives."""
    if least.counts is None:
        raise ValueError("the plan with the least memory is needed to explain")
    peaks = problem.rank_memory(problem.costs(least.counts))
    return Outcome(
        status=Status.INFEASIBLE,
        simulation=None,
        lower_bound_ns=0,
        memory_limit_bytes=problem.memory_limit_bytes,
        solve_seconds=seconds,
        infeasibility=Infeasibility(
            rank=int(np.argmax(peaks)),
            smallest_limit_bytes=int(peaks.max()),
            proven=least.proven,
            advice=tuple(advice_for(problem)) if advise else (),
        ),
        fixed_layers=problem.fixed_layers is not None,
    )


def advice_for(problem: Problem, *, schedules: bool = True) -> list[str]:
    """Sentences, each about one change that was tried or is missing; without other `schedules` where asked."""
    advice = []
    schedule, fixed = problem.schedule, problem.fixed_layers
    variants: list[tuple[str, str, int, Cells | None]] = []
    if fixed is not None:
        variants.append(("another split of the layers", schedule.name, schedule.num_chunks, None))
    if schedules and schedule.num_chunks > 1 and schedule.name == "interleaved":
        words = "the less-memory variant of the schedule"
        variants.append((words, "interleaved-less-memory", schedule.num_chunks, fixed))
    if schedules and schedule.name != "1f1b":
        variants.append(("1F1B with one chunk a rank", "1f1b", 1, None))
    for words, name, num_chunks, layers in variants:
        needed = _least(problem, name, num_chunks, schedule.num_ranks, layers)
        if needed is not None:
            verdict = "would fit" if needed <= problem.limit else "would still not fit"
            advice.append(f"{words} {verdict}: it needs {megabytes(needed):,.0f} MB")
    needed = _least(problem, schedule.name, schedule.num_chunks, 2 * schedule.num_ranks)
    if needed is not None:
        verdict = "would fit" if needed <= problem.limit else "would still not fit"
        advice.append(f"{2 * schedule.num_ranks} ranks {verdict}: they need {megabytes(needed):,.0f} MB")
    missing = [kind for kind in (FULL, BOTH, SELECT, COMM) if kind not in problem.kinds]
    if schedule.sequence_splits > 1 and FULL in missing:
        missing.remove(FULL)
    if missing:
        advice.append(f"recompute kinds that the network does not offer might help: {', '.join(missing)}")
    return advice


def _least(problem: Problem, schedule: str, num_chunks: int, num_ranks: int, layers: Cells | None = None) -> int | None:
    """The least memory of the same network in another arrangement, or None where there is none."""
    try:
        other = make_problem(
            problem.original,
            schedule=schedule,
            num_ranks=num_ranks,
            num_chunks=num_chunks,
            num_microbatches=problem.schedule.num_microbatches,
            sequence_splits=problem.schedule.sequence_splits,
            memory_limit_bytes=problem.memory_limit_bytes,
            mix_any=problem.mix_any,
            allow_empty=problem.min_layers == 0,
            layers=layers,
        )
    except InputError:
        return None
    found = least_memory(other, seconds=_ALTERNATIVE_SECONDS)
    return None if found.counts is None else int(other.rank_memory(other.costs(found.counts)).max())
