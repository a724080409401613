"""A solver that answers at once: layers dealt evenly, everything or nothing recomputed."""

from evenflow.model import FULL, NONE
from evenflow.model.naive import even_plan
from evenflow.schedule import default_family
from evenflow.simulate import simulate
from evenflow.solve import Infeasibility, Outcome, Progress, Status


def even_outcome(
    network, *, num_ranks, num_microbatches, num_chunks=1, memory_limit_bytes=None, schedule=None, less_memory=False,
    sequence_splits=1, communication=None, progress=None, **_ignored,
):
    schedule = schedule or default_family(num_chunks=num_chunks, less_memory=less_memory)
    smallest, rank = None, 0
    for kind in (NONE, FULL):
        if kind not in network.split_sequence(sequence_splits).kinds:
            continue
        plan = even_plan(
            network, num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=num_microbatches, schedule=schedule,
            sequence_splits=sequence_splits, recompute=kind,
        )
        simulation = simulate(network, plan, communication=communication)
        if simulation.fits(memory_limit_bytes):
            bound = simulation.makespan_ns * 99 // 100
            if progress:
                progress(Progress(seconds=0.5, phase="searching", makespan_ns=None, lower_bound_ns=bound // 2))
                progress(
                    Progress(seconds=3.0, phase="proving", makespan_ns=simulation.makespan_ns, lower_bound_ns=bound)
                )
            return Outcome(
                status=Status.FEASIBLE, simulation=simulation, lower_bound_ns=bound,
                memory_limit_bytes=memory_limit_bytes, solve_seconds=1.5,
            )
        peak = max(simulation.peak_memory_bytes)
        if smallest is None or peak < smallest:
            smallest, rank = peak, simulation.peak_memory_bytes.index(peak)
    return Outcome(
        status=Status.INFEASIBLE, simulation=None, lower_bound_ns=0, memory_limit_bytes=memory_limit_bytes,
        solve_seconds=0.1,
        infeasibility=Infeasibility(
            rank=rank, smallest_limit_bytes=smallest, proven=True, advice=("more ranks would help",)
        ),
    )
