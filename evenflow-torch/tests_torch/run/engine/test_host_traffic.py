"""What a rank moves to the host: as much is on the device during every action as on paper, and its values come back."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import event, given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

from evenflow.model import HostLink
from evenflow.schedule import Op, Schedule
from evenflow.simulate import StageCosts, changes_at_both_ends
from evenflow_torch.models.live_storage import LiveStorages
from evenflow_torch.run.engine.host_traffic import HostLines, HostTraffic, Moved
from evenflow_torch.run.engine.offload import Offload
from evenflow_torch.run.measure.live_memory import memory_meter
from tests.strategies import FamilySizes, random_schedules, sizes
from tests.thoroughness import examples

CPU = torch.device("cpu")
LINKS = st.builds(
    HostLink,
    bytes_per_s=st.just(10**9),
    buffers=st.none() | st.integers(1, 4),
    ahead=st.integers(0, 4),
    one_engine=st.booleans(),
)
WIDTH, ROWS = 16, 32


class Device:
    """Counts what is there, of the stages that move."""

    def __init__(self) -> None:
        self.held = 0


class Counted:
    """A place that counts itself while it is on the device, and refuses any other order of calls."""

    def __init__(self, device: Device) -> None:
        self.device, self.state = device, "made"
        device.held += 1

    def _goes(self, before: str, after: str, more: int) -> None:
        assert self.state == before
        self.state = after
        self.device.held += more

    def leave(self) -> None:
        self._goes("made", "leaving", 0)

    def has_left(self) -> None:
        self._goes("leaving", "away", -1)

    def fetch(self) -> None:
        self._goes("away", "coming", 1)

    def is_back(self) -> None:
        self._goes("coming", "back", 0)


def costs_of(schedule: Schedule, link: HostLink, moving: frozenset[int]) -> StageCosts:
    """Every stage that moves anything moves one byte, and nothing else is held."""
    nothing = np.zeros(schedule.num_stages, dtype=np.int64)
    by_rank = np.zeros(schedule.num_ranks, dtype=np.int64)
    return StageCosts(
        num_ranks=schedule.num_ranks, forward_ns=nothing, backward_ns=nothing, weight_ns=nothing, recompute_ns=nothing,
        activation_bytes=nothing, until_weight_bytes=nothing, static_bytes=by_rank, working_bytes=by_rank,
        offloaded_bytes=np.array([int(stage in moving) for stage in range(schedule.num_stages)], dtype=np.int64),
        copy_ns=nothing, host_link=link,
    )  # fmt: skip


@settings(max_examples=examples(100))
@given(sizes().map(FamilySizes.schedule) | random_schedules(), LINKS, st.data())
def test_as_much_is_on_the_device_as_on_paper(schedule: Schedule, link: HostLink, data: st.DataObject) -> None:
    if schedule.is_forward_only or schedule.sequence_splits > 1:
        return
    moving = frozenset(data.draw(st.sets(st.sampled_from(range(schedule.num_stages)))))
    changes = changes_at_both_ends(schedule, costs_of(schedule, link, moving))
    assert changes is not None
    moves = 0
    for rank in range(schedule.num_ranks):
        device = Device()
        traffic = HostTraffic(schedule, rank, link, stages=moving, device=CPU, keeps_inputs=lambda: False)
        traffic.moved = lambda device=device: Counted(device)  # type: ignore[method-assign, assignment, misc]
        calls: dict[Any, list[Any]] = {}
        for action, call in traffic.calls():
            calls.setdefault(action, []).append(call)
        span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
        on_paper = np.cumsum(changes[span].reshape(-1))[::2]
        stays, found = set[tuple[int, int]](), []
        for action in schedule.order(rank):
            pass_ = (action.stage, action.microbatch)
            if action.op == Op.F:
                with traffic.forward(*pass_) as moved:
                    if moved is None and action.stage in moving:
                        stays.add(pass_)
                        device.held += 1
                    moves += moved is not None
                    found.append(device.held)
            elif action.op in (Op.B, Op.I):
                traffic.backward_begins(*pass_)
                found.append(device.held)
                device.held -= action.stage in moving
                stays.discard(pass_)
            else:
                found.append(device.held)
            for call in calls.get(action, ()):
                call(None)
        assert found == on_paper.tolist()
        assert device.held == 0
        assert not stays
    event(f"moves: {moves > 0}")


def layers() -> list[nn.Module]:
    torch.manual_seed(0)
    return [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH), nn.Tanh()).double() for _ in range(3)]


def forwards_of(modules: list[nn.Module], offload: Offload, kind: str) -> list[Any]:
    if kind == "recomputed":
        return [offload.recomputed(module) for module in modules]
    if kind == "in part":
        modules = [nn.Sequential(_Checkpointed(module[0]), *module[1:]) for module in modules]  # type: ignore[index]
    return [offload.forward_of(module) for module in modules]


class _Checkpointed(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, hidden: torch.Tensor) -> Any:
        return checkpoint(self.module, hidden, use_reentrant=False)


@pytest.mark.parametrize("one_engine", [False, True])
@pytest.mark.parametrize("kind", ["whole", "recomputed", "in part"])
def test_what_has_left_comes_back_with_its_values_and_frees_its_memory(kind: str, one_engine: bool) -> None:
    boundary = torch.randn(ROWS, WIDTH, dtype=torch.float64)
    plain = layers()
    first = boundary.clone().requires_grad_()
    hidden = first
    for module in plain:
        hidden = module(hidden)
    hidden.square().sum().backward()

    modules, offload = layers(), Offload(keeps_input=False)
    offload.is_planned = True
    lines = HostLines(CPU, one_engine=one_engine)
    forwards = forwards_of(modules, offload, kind)
    with memory_meter(CPU, [boundary, *(p for module in modules for p in module.parameters())]) as meter:
        assert isinstance(meter, LiveStorages)
        before = meter.live_bytes
        received = boundary.clone().requires_grad_()
        moved = Moved(lines, empties_input=True)
        with offload.into(moved):
            offload.begin(received)
            hidden = received
            for forward in forwards:
                hidden = forward(hidden)
        loss = hidden.square().sum()
        full = meter.live_bytes - before
        moved.leave()
        moved.has_left()
        # What is left is the output, which the loss keeps, and the loss.
        assert meter.live_bytes - before <= hidden.nbytes + 64
        assert received.shape == boundary.shape
        moved.fetch()
        moved.is_back()
        # The output is there twice: as the loss has it, and as the last layer keeps it.
        assert meter.live_bytes - before <= full + hidden.nbytes + 64
        assert meter.live_bytes - before >= (3 if kind == "recomputed" else 6) * boundary.nbytes
        loss.backward()
        del hidden, loss
    assert received.grad is not None
    assert torch.equal(received.grad, first.grad)  # type: ignore[arg-type]
    for module, other in zip(modules, plain, strict=True):
        for own, right in zip(module.parameters(), other.parameters(), strict=True):
            assert torch.equal(own.grad, right.grad)  # type: ignore[arg-type]


def test_an_input_that_somebody_reads_stays() -> None:
    modules, offload = layers(), Offload(keeps_input=False)
    offload.is_planned = True
    received = torch.randn(ROWS, WIDTH, dtype=torch.float64).requires_grad_()
    values = received.detach().clone()
    moved = Moved(HostLines(CPU, one_engine=False), empties_input=False)
    with offload.into(moved):
        offload.begin(received)
        output = offload.forward_of(modules[0])(received)
    moved.leave()
    moved.has_left()
    assert torch.equal(received, values)
    moved.fetch()
    moved.is_back()
    output.sum().backward()


def test_without_a_place_everything_stays() -> None:
    (module, *_), offload = layers(), Offload()
    offload.is_planned = True
    hidden = torch.randn(ROWS, WIDTH, dtype=torch.float64)
    expected = module(hidden)
    for forward in (offload.forward_of(module), offload.recomputed(module)):
        offload.begin(hidden)
        output = forward(hidden)
        assert torch.equal(output, expected)
        output.sum().backward()


def test_a_copy_that_fails_is_raised_where_it_is_waited_for() -> None:
    line = HostLines(CPU, one_engine=True).out
    done = line.run(lambda: (_ for _ in ()).throw(MemoryError("no room on the host")))
    with pytest.raises(MemoryError, match="no room on the host"):
        line.wait(done)
