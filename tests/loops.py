"""The compiled loops, made ready before any test: time limits count compiling, and tests have short ones."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial

import numpy as np

from evenflow.model import Request, Sizes
from evenflow.schedule import make_schedule
from evenflow.simulate import build_graph
from evenflow.solve import plan
from evenflow.solve.bounds import capacity_bound_ns, capacity_table, load_cut_search, path_bound_ns
from evenflow.solve.certificate.certify import certify
from evenflow.solve.columns.rank_columns import all_options
from evenflow.solve.cuts.cut_graph import CutGraphs
from evenflow.solve.cuts.trial import Trial
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.order.order_search import load_kernels
from evenflow.solve.problem import make_problem
from evenflow.solve.proof import Prover
from evenflow.solve.search.dealing import first_plan
from evenflow.solve.start import even_start
from tests.networks import plain_network


@cache
def compile_loops() -> None:
    """Compile the loops of planning, or read them from the disk, by planning something tiny.

    The second of two workers begins at the other end: each reads from the disk what the other has compiled.
    """
    steps: list[Callable[[], object]] = [load_kernels, load_cut_search]
    paired = Request(network=plain_network(4), sizes=Sizes(num_ranks=2, num_chunks=1, num_microbatches=2))
    steps += [partial(_plan, paired, "1f1b-overlap"), partial(_pair_columns, paired, "1f1b-overlap")]
    for schedule, num_chunks in (("1f1b", 1), ("interleaved", 2)):
        sizes = Sizes(num_ranks=2, num_chunks=num_chunks, num_microbatches=2)
        request = Request(network=plain_network(4), sizes=sizes, memory_limit_bytes=2 * 10**9)
        steps += [
            partial(step, request, schedule) for step in (_plan, _first_plan, _bound, _paths, _cuts, _certificate)
        ]
    steps.append(_least_memory)
    is_second = os.environ.get("PYTEST_XDIST_WORKER") == "gw1"
    for step in reversed(steps) if is_second else steps:
        step()


def _plan(request: Request, schedule: str) -> None:
    sizes = request.sizes
    plan(
        request.network, num_ranks=sizes.num_ranks, num_chunks=sizes.num_chunks,
        num_microbatches=sizes.num_microbatches, schedule=schedule, time_limit_s=600,
    )  # fmt: skip


def _pair_columns(request: Request, schedule: str) -> None:
    problem = make_problem(request, schedule=schedule)
    prover = Prover(problem)
    prover.learn(even_start(problem))
    assert not prover.refute(problem.makespan_ns(problem.costs(even_start(problem))), seconds=600).refuted


def _first_plan(request: Request, schedule: str) -> None:
    first_plan(make_problem(request, schedule=schedule))


def _bound(request: Request, schedule: str) -> None:
    capacity_bound_ns(capacity_table(request, schedule), schedule, request.sizes)


def _cuts(request: Request, schedule: str) -> None:
    problem = make_problem(request, schedule=schedule)
    target_ns = 10**12
    options = all_options(problem, target_ns)
    assert options is not None
    graphs = CutGraphs(problem, options, target_ns)
    graph = graphs.graph(4 // problem.num_chunks)
    assert graph is not None
    assert graphs.in_time(graph).any()
    no_paths = np.zeros((0, graph.classes.size + 1))
    trial = Trial(graph, problem, paths=no_paths, target_ns=target_ns, from_last=False)
    assert not trial.goes_on()


def _certificate(request: Request, schedule: str) -> None:
    problem = make_problem(request, schedule=schedule)
    assert certify(problem, even_start(problem), seconds=600) is not None


def _least_memory() -> None:
    network = plain_network(4)
    (run,) = network.runs
    larger = replace(run, layer=replace(run.layer, parameter_bytes=run.layer.parameter_bytes + 1), count=1)
    unlike = replace(network, runs=(replace(run, count=3), larger))
    request = Request(network=unlike, sizes=Sizes(num_ranks=2, num_chunks=2, num_microbatches=2))
    assert least_memory(make_problem(request, schedule="interleaved"), seconds=600).proven


def _paths(request: Request, schedule: str) -> None:
    sizes = request.sizes
    graph = build_graph(
        make_schedule(
            schedule, num_ranks=sizes.num_ranks, num_chunks=sizes.num_chunks, num_microbatches=sizes.num_microbatches
        )
    )
    path_bound_ns(capacity_table(request, schedule), graph)
