"""The compiled loops, made ready before any test: time limits count compiling, and tests have short ones."""

from functools import cache

from evenflow.model import Request, Sizes
from evenflow.solve import plan
from evenflow.solve.bounds import capacity_bound_ns, capacity_table
from evenflow.solve.order.order_search import load_kernels
from evenflow.solve.problem import make_problem
from evenflow.solve.search.dealing import first_plan
from tests.networks import plain_network


@cache
def compile_loops() -> None:
    """Compile the loops of planning, or read them from the disk, by planning something tiny."""
    network = plain_network(4)
    load_kernels()
    for schedule, num_chunks in (("1f1b", 1), ("interleaved", 2)):
        sizes = Sizes(num_ranks=2, num_chunks=num_chunks, num_microbatches=2)
        request = Request(network=network, sizes=sizes, memory_limit_bytes=2 * 10**9)
        plan(network, num_ranks=2, num_chunks=num_chunks, num_microbatches=2, time_limit_s=600)
        first_plan(make_problem(request, schedule=schedule))
        capacity_bound_ns(capacity_table(request, schedule), schedule, sizes)
