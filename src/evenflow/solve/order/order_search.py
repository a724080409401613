"""The search for the shortest order for the cells of a plan."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.errors import InputError
from evenflow.interruption import abandonable
from evenflow.language import _
from evenflow.model import Communication, NetworkSource, Plan, as_network
from evenflow.schedule import (
    Schedule,
    check_complete,
    check_sizes_of,
    one_f_one_b,
    schedule_of,
)
from evenflow.simulate import pairs_save, stage_costs
from evenflow.solve.bounds import GivenCellsBound, given_cells_bound
from evenflow.solve.clock import now_s
from evenflow.solve.machine_code import MachineCode
from evenflow.solve.order.made_orders import load_makers
from evenflow.solve.order.searcher import OrderSearch
from evenflow.solve.outcome import ProgressCallback
from evenflow.solve.work import make_work, unit_work

SEARCHER = MachineCode()
"""What `load_kernels` makes."""
_STARTS_SHARE = 0.5
"""Most of the time for the orders of families."""


@dataclass(frozen=True, kw_only=True)
class OrderOutcome:
    """The best order found for some work."""

    schedule: Schedule
    makespan_ns: int
    bound: GivenCellsBound
    start_ns: int | None
    """Makespan of the best order that the search started from; None when none of them fits in memory."""
    start_name: str | None
    """Name of the best order that the search started from."""
    solve_seconds: float

    @property
    def lower_bound_ns(self) -> int:
        """Lower bound on any order of these stages on these ranks within the limit."""
        return min(self.bound.lower_bound_ns, self.makespan_ns)

    @property
    def gap(self) -> float:
        """The largest fraction of the makespan that another order could save."""
        return 1 - self.lower_bound_ns / self.makespan_ns


def search_order(
    plan: Plan,
    network: NetworkSource,
    *,
    memory_limit_bytes: int | None,
    communication: Communication | None = None,
    split_backward: bool = False,
    in_pairs: bool = True,
    start: Sequence[Schedule] = (),
    time_limit_s: float,
    seed: int = 0,
    progress: ProgressCallback | None = None,
) -> OrderOutcome:
    """Return the shortest order found for the cells of `plan`, on its placement and within the memory limit.

    The network may be the path of its layer file.
    Starts from all families of these sizes and placement and from `start`, and is never longer than any of them that
    fits. With `split_backward` stages may split their backwards; otherwise none does. With `in_pairs` forwards run
    beside backwards where layers exchange tokens and that saves time; otherwise none does, nor in any of those that it
    starts from. Ends early when the order is proven optimal; `seed` makes it look elsewhere. Runs in the caller's
    thread; Ctrl-C raises KeyboardInterrupt.

    Raises InputError when not even one microbatch at a time fits, and for steps without backward.
    """
    began = now_s()
    network = as_network(network)
    load_kernels()
    schedule = schedule_of(plan)
    in_pairs = in_pairs and pairs_save(network, communication)
    costs = stage_costs(network, plan, schedule.in_turn(), in_pairs=in_pairs)
    limit = memory_limit_bytes if network.has_memory else None
    work = make_work(
        costs, schedule, memory_limit_bytes=limit, communication=communication, split_backward=split_backward
    )
    for initial in start:
        check_sizes_of(plan, initial)
        check_complete(initial)
        if initial.stage_ranks != schedule.stage_ranks:
            raise InputError(
                value=initial.name, rule=_("must have the placement of the plan"), place=_("the order to start from")
            )
    with abandonable():
        bound = given_cells_bound(work)
        search = OrderSearch(work=work, bound_ns=bound.lower_bound_ns, seed=seed)
        for candidate in (*start, schedule):
            search.start_from(candidate if in_pairs else candidate.in_turn())
        search.start_from_families(schedule.name, until=began + _STARTS_SHARE * time_limit_s)
    started = search.best
    search.split_best()
    search.improve(began=began, time_limit_s=time_limit_s, progress=progress)
    best = search.best
    if best is None and work.has_copies:
        raise InputError(
            rule=_("must leave room for an order of work: none was found that fits with what is copied to the host"),
            place=_("memory limit"),
            remedy=_("move or recompute more, or raise the limit"),
        )
    if best is None:
        raise AssertionError("one microbatch at a time fits, so there is an order: this is a fault in evenflow")
    return OrderOutcome(
        schedule=best.schedule,
        makespan_ns=best.makespan_ns,
        bound=bound,
        start_ns=started.makespan_ns if started else None,
        start_name=started.schedule.name if started else None,
        solve_seconds=now_s() - began,
    )


def load_kernels() -> None:
    """Compile what the search needs, or read it from the cache, by searching something tiny."""
    tiny = one_f_one_b(num_ranks=2, num_microbatches=2)
    work = unit_work(tiny)
    search = OrderSearch(work=work, bound_ns=0)
    search.start_from(tiny)
    search.improve(began=now_s(), time_limit_s=0.01, progress=None)
    search.anneal(steps=1, end=np.inf)
    load_makers()
