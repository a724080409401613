"""The order in which meshes are tried, and what is left of the search when the time is over or a signal comes."""

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from evenflow import interruption  # noqa: E402
from evenflow.cluster.cluster import Link  # noqa: E402
from evenflow.errors import InputError  # noqa: E402
from evenflow.solve import Status  # noqa: E402
from evenflow_torch.auto.deadline import Deadline  # noqa: E402
from evenflow_torch.auto.planner import AutoPlan, plan_row  # noqa: E402
from evenflow_torch.auto.stages import meshes_tried as module  # noqa: E402
from evenflow_torch.auto.stages.meshes_tried import meshes_tried, sharded_stages  # noqa: E402
from evenflow_torch.auto.stages.request import TwoLevelRequest  # noqa: E402
from evenflow_torch.models.parts import ModelRow  # noqa: E402
from evenflow_torch.models.rows import row_with_inputs  # noqa: E402
from tests.clocks import SetClock, standing  # noqa: E402
from tests.cluster.clusters import mesh  # noqa: E402

WIDTH = 16
LINK = Link(bytes_per_s=10**10, latency_ns=100)


def row(num_layers: int = 4) -> ModelRow:
    with torch.device("meta"):
        layers = nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(num_layers)))
        return row_with_inputs(layers, torch.empty(8, WIDTH))


def request(deadline: Deadline | None = None, *, nodes: int = 2, devices: int = 2) -> TwoLevelRequest:
    return TwoLevelRequest(
        cluster=mesh(nodes, devices, memory_bytes=2**30, intra=LINK, inter=LINK),
        num_microbatches=4,
        deadline=deadline or Deadline.after(1, now=standing),
    )


@pytest.mark.parametrize(
    ("sizes", "names"),
    [
        ((1, 1), "1x1"),
        ((4, 1), "4x1 1x1 2x1"),
        ((1, 6), "1x6 1x1 1x3 1x2 1x6 as 2x3"),
        ((2, 4), "2x4 1x4 1x1 1x2 2x4 as 4x2 1x4 as 2x2"),
        ((3, 2), "3x2 1x2 1x1 2x2"),
    ],
)
def test_the_whole_cluster_a_node_and_a_device_come_first(sizes: tuple[int, int], names: str) -> None:
    found = [str(one) for one in meshes_tried(request(nodes=sizes[0], devices=sizes[1]))]
    assert " ".join(found) == names


def check(found: AutoPlan) -> None:
    devices = [device for stage in found.stages for device in stage.devices]
    assert sorted(set(devices)) == list(range(4))
    assert (found.stages[0].first, found.stages[-1].end) == (0, 4)


def test_when_the_time_is_over_the_best_so_far_is_the_answer() -> None:
    """The clock goes on with every look at it, so every limit ends the search at another place."""
    num_left_out, refused = set(), []
    whole = plan_row(row(), request())
    assert not any("left out" in note for note in whole.notes)
    for limit in (1, 5, 10, 20, 40, 60, 80, 120, 160, 240, 10_000):
        try:
            found = plan_row(row(), request(Deadline.after(limit, now=SetClock(step=1.0))))
        except InputError as error:
            refused.append(str(error))
            continue
        check(found)
        num_left_out.add(len(found.provider.left_out))
        assert found.simulation.makespan_ns >= whole.simulation.makespan_ns or found.refined
        if found.provider.left_out:
            assert found.status is Status.FEASIBLE
            (note,) = (note for note in found.notes if f"the {limit} seconds were over" in note)
            assert all(name in note for name in found.provider.left_out)
    assert all("the time limit must be enough seconds" in message for message in refused)
    assert refused
    assert 0 in num_left_out
    assert len(num_left_out) > 2


def test_a_signal_gives_the_plan_of_the_meshes_so_far(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = []

    def signal(text: str) -> None:
        if "2 of" in text:
            monkeypatch.setattr(interruption._command, "signal", 2)

    monkeypatch.setattr(module, "answer_exists", lambda: answers.append(True))
    found = plan_row(row(), request(), progress=signal)
    check(found)
    assert answers == [True]
    assert len(found.provider.left_out) == len(meshes_tried(request())) - 2
    assert any("when the signal came" in note for note in found.notes)


def test_a_signal_in_the_middle_of_a_mesh_abandons_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = module.costs_on

    def interrupted(*arguments: object, **named: object) -> object:
        found = real(*arguments, **named)
        yield next(found)
        monkeypatch.setattr(interruption._command, "signal", 2)
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "costs_on", interrupted)
    provider = sharded_stages(row(), request())
    assert len(provider.left_out) == len(meshes_tried(request())) - 1


def test_ctrl_c_in_a_library_call_is_an_interrupt(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_arguments: object, **_named: object) -> object:
        yield from ()
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "costs_on", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sharded_stages(row(), request())
