"""Kernels belong to the scope or backward node that launched them."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.profiles.traces.formats.device_times import occurrences_of
from evenflow.profiles.traces.formats.kernel_names import Doing
from evenflow.profiles.traces.formats.launches import BackwardNode, DeviceWork, LaunchLink, LaunchScope
from evenflow.profiles.traces.names import Match

LAYER = Match("body", "Layer")


def scope(start_ns, end_ns, name="Layer_0"):
    return LaunchScope(thread=0, start_ns=start_ns, end_ns=end_ns, match=LAYER, name=name)


def work(*kernels, collective=(), exchange=()):
    """Kernels of thread, launch, start, end."""
    thread, launch_ns, start_ns, end_ns = np.array(kernels, dtype=np.int64).reshape(-1, 4).T
    doing = np.zeros(len(kernels), dtype=np.int64)
    doing[list(collective)], doing[list(exchange)] = Doing.COLLECTIVE, Doing.EXCHANGE
    return DeviceWork(thread=thread, launch_ns=launch_ns, start_ns=start_ns, end_ns=end_ns, doing=doing)


def times(*arguments):
    occurrences, repeated = occurrences_of(*arguments)
    return {(run.scope, run.phase): run.time_ns for run in occurrences}, repeated


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 9)), max_size=8))
def test_the_time_of_a_layer_is_the_union_of_its_kernels(spans):
    kernels = [(0, 5, start, start + length) for start, length in spans]
    covered = {moment for start, length in spans for moment in range(start, start + length)}
    assert times([scope(0, 10)], [], [], work(*kernels)) == ({("Layer_0", "forward"): len(covered)}, False)


def test_a_backward_node_belongs_to_the_layer_that_made_it_and_so_does_what_follows_it():
    scopes = [scope(0, 10), scope(10, 20, "Layer_1")]
    nodes = [BackwardNode(1, 100, 110), BackwardNode(1, 110, 115), BackwardNode(1, 120, 130)]
    links = [LaunchLink(0, 12, 1, 100), LaunchLink(0, 3, 1, 120)]
    kernels = work((0, 1, 0, 2), (0, 11, 2, 5), (1, 105, 30, 37), (1, 112, 40, 41), (1, 125, 50, 53), collective=[3])
    expected = {
        ("Layer_0", "forward"): 2, ("Layer_1", "forward"): 3, ("Layer_0", "backward"): 3,
        ("Layer_1", "backward"): 7,  # the collective of a node without a link is that of the gradients
    }  # fmt: skip
    assert times(scopes, nodes, links, kernels) == (expected, False)


def test_a_scope_within_a_backward_node_is_a_recomputation():
    scopes = [scope(0, 10), scope(102, 106)]
    nodes = [BackwardNode(0, 100, 120)]
    kernels = work((0, 1, 0, 2), (0, 103, 10, 90), (0, 110, 90, 94))
    assert times(scopes, nodes, [LaunchLink(0, 4, 0, 100)], kernels) == (
        {("Layer_0", "forward"): 2, ("Layer_0", "backward"): 4},
        True,
    )


def test_a_scope_within_another_is_part_of_it():
    scopes = [scope(0, 10), scope(2, 8, "inner_Layer")]
    assert times(scopes, [], [], work((0, 1, 0, 2), (0, 5, 3, 7))) == ({("Layer_0", "forward"): 6}, False)


def test_a_scope_that_begins_where_another_ends_by_rounded_numbers_is_no_part_of_it():
    scopes = [scope(0, 10_250), scope(5_000, 10_250, "inner_Layer"), scope(10_000, 20_000, "Layer_1")]
    kernels = work((0, 6_000, 0, 2), (0, 10_100, 3, 7), (0, 15_000, 8, 9))
    assert times(scopes, [], [], kernels) == ({("Layer_0", "forward"): 2, ("Layer_1", "forward"): 5}, False)
