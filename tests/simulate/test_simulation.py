from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given

from evenflow.errors import InputError, ScheduleError
from evenflow.model import FULL, EndBlock, Layer, LayerRun, Mode, Network, Plan, cells
from evenflow.schedule import Action, Op, Schedule, parse_schedule
from evenflow.simulate import Simulation, StageCosts, as_fractions, simulate, stage_costs
from tests.oracle import end_times, live_peak, orders_of
from tests.strategies import moving_simulations, schedule_of, simulations


def duration_of(costs: StageCosts, action: Action) -> int:
    forward, backward, weight = (
        int(each[action.stage]) for each in (costs.forward_ns, costs.backward_ns, costs.weight_ns)
    )
    return {Op.F: forward, Op.B: backward, Op.I: backward - weight, Op.W: weight}[action.op]


@given(simulations())
def test_a_simulation_is_that_of_the_oracle(simulation: Simulation):
    costs = simulation.costs
    schedule = simulation.timeline.schedule
    orders = orders_of(schedule)
    ends = end_times(
        orders,
        schedule.num_stages,
        lambda action: duration_of(costs, action),
        message_ns=simulation.communication.message_ns if simulation.communication else 0,
    )
    assert simulation.makespan_ns == max(ends.values())
    fixed = (costs.static_bytes + costs.working_bytes).tolist()
    peaks = tuple(
        fixed[rank] + live_peak(order, costs.activation_bytes.item, costs.until_weight_bytes.item)
        for rank, order in enumerate(orders)
    )
    if schedule.has_pairs:  # they go layer by layer, held against an oracle of their own in `tests/solve/test_pairs.py`
        assert all(peak <= whole for peak, whole in zip(simulation.peak_memory_bytes, peaks, strict=True))
        peaks = simulation.peak_memory_bytes
    assert simulation.peak_memory_bytes == peaks
    assert simulation.fits(None)
    assert simulation.fits(max(peaks))
    assert not simulation.fits(max(peaks) - 1)
    assert all(peak >= static for peak, static in zip(peaks, costs.static_bytes, strict=True))


@given(simulations() | moving_simulations())
def test_idle_causes_add_up_on_every_rank(simulation: Simulation):
    makespan_ns, busy_ns = simulation.makespan_ns, simulation.timeline.busy_ns
    for idle, busy in zip(simulation.idle, busy_ns, strict=True):
        assert idle.total_ns == makespan_ns - busy >= 0
        causes = (idle.fill_drain_ns, idle.imbalance_ns, idle.recompute_ns, idle.communication_ns, idle.host_copies_ns)
        assert sum(causes) == idle.total_ns
        assert idle.fill_drain_ns >= 0
        if simulation.communication is None:
            assert idle.communication_ns == 0
        else:
            assert idle.communication_ns >= 0
        assert idle.host_copies_ns >= 0
        if not simulation.timeline.has_copies:
            assert idle.host_copies_ns == 0


@given(simulations() | moving_simulations())
def test_the_bubble_table_is_that_of_the_guide(simulation: Simulation):
    """Fractions of model time: real = ranks T / model - 1, ideal = (ranks - 1) / (chunks microbatches)."""
    plan, costs, table = simulation.plan, simulation.costs, simulation.bubbles
    units = plan.num_microbatches * plan.sequence_splits
    hardware = int(costs.forward_ns.sum() + costs.backward_ns.sum()) * units
    model = hardware - int(costs.recompute_ns.sum()) * units
    order = simulation.timeline.schedule
    stays = replace(plan, recompute={}) if simulation.network.host_link else plan
    silent = simulate(simulation.network, stays, schedule=order).makespan_ns
    spoken = simulate(simulation.network, stays, schedule=order, communication=simulation.communication).makespan_ns
    real = Fraction(plan.num_ranks * simulation.makespan_ns, model) - 1
    ideal = Fraction(plan.num_ranks - 1, plan.num_chunks * units)
    if order.splits_backward:  # the idle time of equal stages instead of the formula
        idle = Fraction(equal_stages_makespan(order, costs), order.num_stages) * plan.num_ranks
        ideal = idle / model - 1
    recompute = Fraction(hardware, model) - 1
    communication = Fraction(plan.num_ranks * (spoken - silent), model)
    copies = Fraction(plan.num_ranks * (simulation.makespan_ns - spoken), model)
    expected = {
        "real": pytest.approx(float(real)),
        "ideal": pytest.approx(float(ideal), abs=1e-9),
        "imbalance": pytest.approx(float(real - ideal - recompute - communication - copies), abs=1e-9),
        "recompute": pytest.approx(float(recompute), abs=1e-9),
        "communication": pytest.approx(float(communication), abs=1e-9),
    }
    if simulation.timeline.has_copies:
        expected["host_copies"] = pytest.approx(float(copies), abs=1e-9)
    assert as_fractions(table) == expected


def equal_stages_makespan(order: Schedule, costs: StageCosts) -> int:
    """Every action as long as those of all stages together, without recomputation."""
    forward, backward, recompute, weight = (
        int(each.sum()) for each in (costs.forward_ns, costs.backward_ns, costs.recompute_ns, costs.weight_ns)
    )
    plain = backward - recompute
    times = {Op.F: forward, Op.B: plain, Op.I: plain - weight, Op.W: weight}
    return max(end_times(orders_of(order), order.num_stages, lambda action: times[action.op]).values())


def by_hand(**changes: object) -> tuple[Network, Plan]:
    """Three layers on 2 ranks, 2 microbatches: F 2, B 4, with full recompute 5; rank 0 recomputes its only layer."""
    modes = {"none": Mode(activation_bytes=10, backward_ns=4), FULL: Mode(activation_bytes=1, backward_ns=5)}
    layer = Layer(name="body", forward_ns=2, parameter_bytes=100, modes=modes)
    network = Network(
        name="three", runs=(LayerRun(layer=layer, count=3),), head=EndBlock(parameter_bytes=7), constant_bytes=1000
    )
    given_plan = {
        "schedule": "1f1b",
        "num_microbatches": 2,
        "layers": cells([[1, 2]]),
        "recompute": {FULL: cells([[1, 0]])},
        **changes,
    }
    return network, Plan(**given_plan)  # type: ignore[arg-type]


def test_a_step_worked_out_by_hand():
    """::

    rank 0  F0 0-2  F1 2-4                  B0 14-19               B1 26-31
    rank 1          F0 2-6  B0 6-14 F1 14-18  B1 18-26
    """
    simulation = simulate(*by_hand())
    assert simulation.makespan_ns == 31
    assert simulation.peak_memory_bytes == (1000 + 100 + 7 + 2, 1000 + 200 + 20)
    # Without recompute the last backward ends 1 earlier. Balanced stages take 3 and 6: (2 + 1) x 9 = 27.
    rank0, rank1 = simulation.idle
    assert (rank0.total_ns, rank0.fill_drain_ns, rank0.imbalance_ns, rank0.recompute_ns) == (17, 9, 9, -1)
    assert (rank1.total_ns, rank1.fill_drain_ns, rank1.imbalance_ns, rank1.recompute_ns) == (7, 9, -3, 1)
    # Model time: (6 + 12) x 2 = 36; hardware time 38.
    assert simulation.bubbles.real == pytest.approx(2 * 31 / 36 - 1)
    assert simulation.bubbles.ideal == pytest.approx(1 / 2)
    assert simulation.bubbles.recompute == pytest.approx(2 / 36)
    assert simulation.bubbles.imbalance == pytest.approx(62 / 36 - 1 - 1 / 2 - 2 / 36)


def test_an_order_may_be_given():
    network, plan = by_hand()
    order = parse_schedule("0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n", name="last first")
    simulation = simulate(network, plan, schedule=order)
    # Rank 1: F0 2-6, F1 6-10, B1 10-18, B0 18-26; rank 0: B1 18-23, B0 26-31.
    assert simulation.makespan_ns == 31
    assert simulation.peak_memory_bytes == (1109, 1000 + 200 + 40)
    assert simulation.timeline.schedule == order


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("0F0,0B0\n1F0,1B0\n", r"schedule, num_microbatches must be the 2 of the plan, got 1"),
        ("0F0,0F1,0B0,0B1\n", r"schedule, num_ranks must be the 2 of the plan, got 1"),
        (
            "0F0,0F1,2F0,2F1,2B0,2B1,0B0,0B1\n1F0,1F1,3F0,3F1,3B0,3B1,1B0,1B1\n",
            "num_chunks must be the 1 of the plan, got 2",
        ),
    ],
)
def test_an_order_of_other_sizes_is_refused(order: str, message: str):
    network, plan = by_hand()
    with pytest.raises(InputError, match=message):
        simulate(network, plan, schedule=parse_schedule(order, name="mine"))


def test_an_order_that_cannot_run_is_refused():
    network, plan = by_hand()
    with pytest.raises(ScheduleError, match="0B1 0 times"):
        simulate(network, plan, schedule=parse_schedule("0F0,0B0,0F1\n1F0,1B0,1F1,1B1\n", name="mine"))
    with pytest.raises(ScheduleError, match="->0B0"):
        simulate(network, plan, schedule=parse_schedule("0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n", name="mine"))
    with pytest.raises(ScheduleError, match="equally many stages"):
        simulate(
            network, plan, schedule=parse_schedule("0F0,0F1,2F0,2B0,2F1,2B1,0B0,0B1\n1F0,1F1,1B0,1B1\n", name="mine")
        )


def test_a_plan_of_another_network_is_refused():
    network, plan = by_hand(layers=cells([[1, 1]]))
    with pytest.raises(InputError, match="add up to the 3 layers of the network"):
        simulate(network, plan)
    network, plan = by_hand()
    assert stage_costs(network, plan, schedule_of(plan)).forward_ns.tolist() == [2, 4]
