"""The search for degrees, against every configuration solved by itself."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations, combinations_with_replacement, pairwise, product
from threading import Event

import pytest

from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.model import FULL, NONE, SELECT, Abilities, Plan, Recomputation, Scope, even_cut
from evenflow.predict.training import Training
from evenflow.predict.transformer import Experts, Transformer
from evenflow.solve.clock import now_s, reproducible, spend
from evenflow.tune.axes import Axis, schedule_of
from evenflow.tune.bounds import StepBounds
from evenflow.tune.candidate import Candidate, Pricing
from evenflow.tune.coarse import MACHINE_CODE, coarse, recomputing_what_it_must
from evenflow.tune.question import TuningQuestion
from evenflow.tune.rows.row import SplitRow
from evenflow.tune.search import TuningProgress, search
from evenflow.tune.space import space_of
from tests.solve.recomputation import layers_that_could_recompute_less
from tests.tune.questions import device_of

DENSE = Transformer(hidden=2048, layers=4, heads=16, kv_heads=8, head_dim=128, ffn=5632, vocabulary=32000, gated=True)
MIXED = Transformer(
    hidden=1024, layers=3, heads=8, kv_heads=8, head_dim=128, ffn=4096, vocabulary=32000, gated=True,
    experts=Experts(count=4, active=2, ffn=2048, dense_layers=1),
)  # fmt: skip
COUNTED = Abilities(
    schedules=("1f1b",),
    recomputation=(Recomputation(scope=Scope.COUNT), Recomputation(scope=Scope.MODEL, kinds=(FULL, SELECT))),
)


def small(model: Transformer = DENSE, **changes: object) -> TuningQuestion:
    settings: dict[str, object] = {
        "model": model,
        "topology": Topology(accelerator=accelerator_named("h100"), domain_devices=4),
        "devices": 4,
        "global_batch": 8,
        "sequence": 4096,
        "memory_limit_bytes": 16 * 2**30,
        "schedules": ("1f1b",),
        "allow_empty": False,
    }
    return TuningQuestion(**(settings | changes))  # type: ignore[arg-type]


QUESTIONS = {
    "dense": small(fixed={Axis.ZERO: 1}),
    "tight": small(memory_limit_bytes=device_of(5), fixed={Axis.ZERO: 1}),
    "experts": small(MIXED, fixed={Axis.ZERO: 1, Axis.MICROBATCH: 1, Axis.TENSOR: 1}),
    "chunks": small(
        schedules=("interleaved", "zb-h1"), memory_limit_bytes=device_of(6), fixed={Axis.ZERO: 1, Axis.PIPELINE: 2}
    ),
    "empty": small(allow_empty=True, fixed={Axis.ZERO: 1, Axis.TENSOR: 1, Axis.MICROBATCH: 1}),
    "more cells than layers": small(
        replace(DENSE, layers=2),
        schedules=("1f1b", "interleaved"),
        allow_empty=True,
        most={Axis.CHUNKS: 2},
        fixed={Axis.ZERO: 1, Axis.PIPELINE: 4, Axis.MICROBATCH: 1},
        global_batch=256,  # what follows the pipeline is little beside it
    ),
}


def every_plan(training: Training, asked: TuningQuestion, kinds: tuple[str, ...]) -> Iterator[Plan]:
    """Yield all plans: all cuts into cells, with all numbers of layers under each kind."""
    layers = asked.model.layers
    ranks, chunks = training.degrees.pipeline, training.degrees.chunks
    borders = combinations(range(1, layers), ranks * chunks - 1)
    if asked.allow_empty:
        borders = combinations_with_replacement(range(layers + 1), ranks * chunks - 1)
    others = [kind for kind in kinds if kind != NONE]
    for cut in borders:
        counts = [end - begin for begin, end in pairwise((0, *cut, layers))]
        contents = [
            [content for content in product(range(count + 1), repeat=len(others)) if sum(content) <= count]
            for count in counts
        ]
        for chosen in product(*contents):
            yield Plan(
                schedule=schedule_of(training),
                num_microbatches=training.microbatches,
                layers=rows(counts, ranks),
                recompute={kind: rows([one[place] for one in chosen], ranks) for place, kind in enumerate(others)},
            )


def rows(cells: list[int], ranks: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(cells[begin : begin + ranks]) for begin in range(0, len(cells), ranks))


@pytest.mark.parametrize("asked", QUESTIONS.values(), ids=QUESTIONS.keys())
def test_the_best_of_all_plans_of_all_configurations(asked: TuningQuestion) -> None:
    pricing = Pricing(question=asked)
    bounds = StepBounds(pricing=pricing)
    steps = {}
    for training in space_of(asked).legal:
        kinds = pricing.of(training).network.kinds
        every = (pricing.planned_step(training, plan) for plan in every_plan(training, asked, kinds))
        steps[training] = min((found.step_ns for found in every if found is not None), default=float("inf"))
        assert bounds.step_ns(training) <= bounds.order_ns(training) <= steps[training]
        assert bounds.work_ns(training) <= steps[training]
    best = min(steps.values())
    answer = search(asked, time_limit_s=60)
    assert answer.best is not None
    assert answer.lower_bound_ns <= best <= answer.best.step_ns
    # The solver minimises the pipeline, to two millionths; what follows it differs by plan.
    assert answer.best.step_ns <= best * 1.001
    for one in answer.candidates:
        assert one.lower_bound_ns <= steps[one.training]
        if one.found is not None:
            assert one.lower_bound_ns <= one.step_ns
            assert max(one.found.rank_bytes) <= asked.memory_limit_bytes
    assert [one.split for one in answer.ranked] == list(dict.fromkeys(one.split for one in answer.ranked))
    assert set(steps) == {one.training for one in answer.candidates}
    assert answer.num_legal == len(answer.candidates) == len(steps)
    best_ns = answer.best.step_ns
    refuted = sum(one.found is None and one.lower_bound_ns >= best_ns for one in answer.candidates)
    assert answer.num_refuted == refuted


GPT2 = Transformer(hidden=768, layers=12, heads=12, kv_heads=12, head_dim=64, ffn=3072, vocabulary=50257, gated=False)
WITH_ROOM = small(
    GPT2, global_batch=32, sequence=1024, memory_limit_bytes=80 * 2**30, schedules=("1f1b", "zbv", "interleaved"),
    topology=Topology(accelerator=accelerator_named("a100-80"), domain_devices=4),
    fixed={Axis.ZERO: 1, Axis.TENSOR: 1},
)  # fmt: skip


@pytest.mark.parametrize("asked", [WITH_ROOM, QUESTIONS["tight"], QUESTIONS["chunks"]], ids=["room", "tight", "chunks"])
def test_rows_recompute_no_layer_that_there_is_memory_to_keep(asked: TuningQuestion) -> None:
    answer = search(asked, time_limit_s=60)
    assert answer.ranked
    for one in answer.ranked:
        assert one.plan is not None
        assert asked is not WITH_ROOM or one.plan.num_recomputed == 0
        request = one.pricing.request(one.training, transfer_ns=one.pricing.message_ns(one.training))
        problem = one.pricing.problem(replace(request, group_size=one.plan.group_size), one.training)
        assert layers_that_could_recompute_less(problem, one.plan) == []


def test_an_equal_step_that_recomputes_less_takes_the_place_of_another() -> None:
    pricing = Pricing(question=WITH_ROOM)
    training = next(each for each in space_of(WITH_ROOM).legal if each.degrees.pipeline == 2)
    first = coarse(pricing, training)
    assert first is not None
    cells = [[0] * first.plan.num_ranks for _ in range(first.plan.num_chunks)]
    cells[0][0] = 1
    more = replace(first.plan, recompute={**first.plan.recompute, FULL: tuple(map(tuple, cells))})
    assert recomputing_what_it_must(pricing, training, more).num_recomputed == 0
    assert recomputing_what_it_must(pricing, training, first.plan) is first.plan


def test_rows_that_cannot_win_are_not_made() -> None:
    asked = small(DENSE, devices=16, topology=Topology(accelerator=accelerator_named("h100"), domain_devices=4))
    answer = search(asked, time_limit_s=60, rows=1)
    assert answer.best is not None
    assert answer.unmade
    assert all(row.lower_bound_ns >= answer.best.step_ns * (1 - 1e-5) for row in answer.unmade)
    assert len(answer.made) < answer.num_legal == len(space_of(asked).legal)


class Calls:
    """The number of calls of one stage of a search."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, stage: str, on_call: Callable[[int], None]) -> None:
        self.number = 0
        module = sys.modules[search.__module__]

        def counted(function: Callable[..., object]) -> Callable[..., object]:
            def call(*given: object, **named: object) -> object:
                self.number += 1
                on_call(self.number)
                return function(*given, **named)

            return call

        if stage == "step_ns":
            monkeypatch.setattr(StepBounds, stage, counted(StepBounds.step_ns))
        elif stage == "degrees":
            of = sys.modules[space_of.__module__]
            monkeypatch.setattr(of, "split_of", counted(of.__dict__["split_of"]))
        else:
            monkeypatch.setattr(module, stage, counted(module.__dict__[stage]))


STAGES = ("degrees", "split_ns", "step_ns", "coarse")


@pytest.mark.parametrize("stage", STAGES)
def test_the_time_limit_is_kept_in_every_stage(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = small(devices=16)
    orders = max(len(split) for split in space_of(asked).splits)
    of = len(space_of(asked).legal)
    seen = Calls(monkeypatch, stage, lambda _calls: None)
    spent = 0

    def spend_on_calls() -> float:
        nonlocal spent
        spend(0.5 * (seen.number - spent))
        spent = seen.number
        return now_s()

    monkeypatch.setattr(sys.modules[search.__module__], "now_s", spend_on_calls)
    with reproducible():
        answer = search(asked, time_limit_s=6.0)
    assert seen.number <= 12 + orders < of
    assert 0 < answer.lower_bound_ns < float("inf")


@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupt_is_kept_in_every_stage(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import _thread

    asked = small(devices=16)
    orders = max(len(split) for split in space_of(asked).splits)
    seen = Calls(monkeypatch, stage, lambda calls: _thread.interrupt_main() if calls == 3 else None)
    answer = search(asked, time_limit_s=60)
    assert answer.interrupted
    assert seen.number <= 3 + 2 * orders
    assert 0 < answer.lower_bound_ns < float("inf")


def test_plans_recompute_as_the_framework_can() -> None:
    """One number of recomputed layers for all cells, or one kind for all layers, and as good as any of them."""
    asked = small(abilities=COUNTED, memory_limit_bytes=device_of(5), fixed={Axis.ZERO: 1, Axis.PIPELINE: 2})
    answer = search(asked, time_limit_s=20)
    assert answer.best is not None
    recomputing = 0
    for one in answer.candidates:
        if one.plan is None:
            continue
        used = one.plan.used_kinds
        assert len(used) <= 1
        for kind in used:
            recomputing += 1
            cells = list(zip(one.plan.layers[0], one.plan.recompute[kind][0], strict=True))
            number = max(count for _layers, count in cells)
            assert all(count == min(layers, number) for layers, count in cells)
            assert kind == FULL or all(count == layers for layers, count in cells)
    assert recomputing


def test_cells_are_equal_where_the_framework_knows_no_others() -> None:
    asked = small(
        replace(DENSE, layers=6), abilities=replace(COUNTED, own_cut=even_cut), fixed={Axis.ZERO: 1, Axis.TENSOR: 1}
    )
    answer = search(asked, time_limit_s=20)
    free = search(replace(asked, abilities=COUNTED), time_limit_s=20)
    plans = [one.plan for one in answer.candidates if one.plan is not None]
    assert {plan.layers for plan in plans} == {((6,),), ((3, 3),)}
    assert "layers" in answer.excluded  # four ranks do not divide six layers
    assert "must be a multiple of the 4 cells" in str(answer.reasons["layers"])
    assert {one.plan.num_ranks for one in free.candidates if one.plan is not None} == {1, 2, 4}


def test_only_the_kind_that_the_user_allows_is_recomputed() -> None:
    for abilities in (None, COUNTED):
        for kind, kinds in (("none", set()), (SELECT, {SELECT})):
            asked = small(abilities=abilities, recompute=kind, memory_limit_bytes=device_of(6), fixed={Axis.ZERO: 1})
            answer = search(asked, time_limit_s=10, rows=1)
            assert answer.best is not None
            for one in answer.candidates:
                assert one.plan is None or set(one.plan.used_kinds) <= kinds


def test_the_answer_is_the_same_each_time() -> None:
    first, second = (search(small(), time_limit_s=60) for _ in range(2))
    assert first.best is not None
    assert second.best is not None
    assert first.best.step_ns == pytest.approx(second.best.step_ns, rel=5e-6)
    assert first.best.training == second.best.training


def test_without_time_there_is_a_first_plan_and_next_to_nothing_is_claimed() -> None:
    answer = search(small(), time_limit_s=0.0)
    assert answer.best is not None
    # A bound on the whole space takes no time.
    assert 0 < answer.lower_bound_ns <= search(small(), time_limit_s=30, rows=1).lower_bound_ns
    assert answer.gap is not None
    assert answer.gap > 0
    none = search(small(memory_limit_bytes=2 * 2**30), time_limit_s=0.0)
    assert none.best is None
    assert none.certificate() == "no configuration was found in the time given"


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search that reports whatever it does, however soon it is over."""
    monkeypatch.setattr(sys.modules[search.__module__], "_REPORT_SECONDS", 0.0)


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """The machine code is being made until this is set."""
    monkeypatch.setattr(MACHINE_CODE, "_thread", None)
    end = Event()
    MACHINE_CODE.begin(end.wait)
    yield end
    end.set()
    thread = MACHINE_CODE._thread
    assert thread is not None
    thread.join()


@pytest.fixture
def never_compiled(compiling: Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of a loop that is not there yet would last as long as the compiler works."""

    def compiled(*_given: object) -> None:
        pytest.fail("the search waits for the compiler")

    monkeypatch.setattr(StepBounds, "step_ns", compiled)
    monkeypatch.setattr(StepBounds, "order_ns", compiled)
    of_coarse = sys.modules[coarse.__module__]
    monkeypatch.setattr(of_coarse, "first_plan", compiled)
    monkeypatch.setattr(of_coarse, "dealt", compiled)


@pytest.mark.usefixtures("never_compiled")
@pytest.mark.parametrize("limit_s", [0.0, 0.4])
@pytest.mark.parametrize(
    "asked",
    [*QUESTIONS.values(), small(abilities=COUNTED, memory_limit_bytes=device_of(9))],
    ids=[*QUESTIONS.keys(), "counted"],
)
def test_a_search_that_is_over_before_its_loops_are_compiled_has_plans_all_the_same(
    asked: TuningQuestion, limit_s: float
) -> None:
    answer = search(asked, time_limit_s=limit_s)
    assert answer.best is not None
    assert answer.lower_bound_ns <= answer.best.step_ns
    for one in answer.ranked:
        assert one.found is not None
        assert max(one.found.rank_bytes) <= asked.memory_limit_bytes
        assert one.lower_bound_ns <= one.step_ns


@pytest.mark.usefixtures("at_once")
def test_a_search_is_whole_where_its_loops_are_compiled_in_time(compiling: Event) -> None:
    asked = QUESTIONS["tight"]
    answer = search(asked, time_limit_s=60, progress=lambda progress: compiling.set() if progress.solved else None)
    assert answer.best is not None
    assert compiling.is_set()
    assert answer.gap == pytest.approx(0, abs=1e-3)
    assert all(one.lower_bound_ns <= one.step_ns for one in answer.candidates)


@pytest.mark.usefixtures("at_once")
def test_rows_of_plain_code_are_planned_again_by_machine_code(
    compiling: Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would keep their even cuts until their turn comes, which a large space may not have time for."""
    asked = small(
        replace(DENSE, layers=8, vocabulary=256_000),
        memory_limit_bytes=60 * 2**30,
        fixed={Axis.PIPELINE: 4, Axis.ZERO: 1, Axis.MICROBATCH: 1},
    )
    of_search = sys.modules[search.__module__]._Search
    monkeypatch.setattr(of_search, "_coarse", lambda *_given: None)
    monkeypatch.setattr(of_search, "_exact", lambda *_given: None)
    answer = search(asked, time_limit_s=60, progress=lambda progress: compiling.set() if progress.solved else None)
    assert answer.ranked
    for one in answer.ranked:
        dealt = coarse(one.pricing, one.training)
        assert dealt is not None
        assert one.step_ns <= dealt.step_ns
        assert one.plan is not None
        assert one.plan.layers != ((2, 2, 2, 2),)


def test_a_row_that_was_explored_is_not_made_again_when_the_time_is_over() -> None:
    """The time is over and nothing fits so far: what is left is looked at for a first answer."""
    late = sys.modules[search.__module__]._Search(small(), 10, now_s(), 60.0, None)
    splits = space_of(late.question).splits
    rows = [SplitRow(split=split, pricing=late.pricing, lower_bound_ns=0.0) for split in splits]
    late.unmade = {row: number for number, row in enumerate(rows)}
    waiting = late._bound()
    explored = list(late._explored(min(waiting)[-1]))
    assert explored
    late.best.clear()
    late.time_limit_s = 0.0
    late._first_rows(waiting)
    assert late.best
    assert len(late.made) == len(set(late.made))


def test_nothing_fits() -> None:
    answer = search(small(memory_limit_bytes=2**30), time_limit_s=20)
    assert answer.ranked == ()
    assert answer.candidates
    assert answer.lower_bound_ns == float("inf")


@pytest.mark.usefixtures("at_once")
def test_progress_counts_every_configuration() -> None:
    seen: list[TuningProgress] = []
    answer = search(small(), time_limit_s=30, progress=seen.append)
    assert seen
    for one in seen:
        assert one.refuted + one.solved + one.left == one.legal == len(answer.candidates)
        assert one.lower_bound_ns <= one.best_ns
    assert seen[-1].best_ns >= seen[-1].lower_bound_ns


@pytest.mark.usefixtures("at_once")
def test_an_interrupt_gives_the_ranking_so_far() -> None:
    import _thread

    def stop(progress: TuningProgress) -> None:
        if progress.solved:
            _thread.interrupt_main()

    answer = search(small(), time_limit_s=60, progress=stop)
    assert answer.interrupted
    assert answer.best is not None
    assert answer.lower_bound_ns <= answer.best.step_ns
    assert answer.solve_seconds < 50


def test_a_first_plan_does_not_wait_for_the_bounds_of_all_configurations(monkeypatch):
    question = QUESTIONS["dense"]
    calls: list[str] = []
    monkeypatch.setattr(StepBounds, "work_ns", lambda *_: 0.0)  # splits whose bounds are the same
    module = sys.modules[search.__module__]
    step_ns, plan = StepBounds.step_ns, coarse
    monkeypatch.setattr(
        StepBounds, "step_ns", lambda *given, **named: calls.append("bound") or step_ns(*given, **named)
    )
    monkeypatch.setattr(module, "coarse", lambda *given: calls.append("plan") or plan(*given))
    search(question, rows=1)
    assert calls.index("plan") < len(space_of(question).legal) / 2


def test_pairs_are_chosen_where_hidden_exchanges_pay_for_them() -> None:
    """Experts on two nodes, without a pipeline, whose pairs cost no bubble; and experts that every device has."""
    model = replace(MIXED, layers=2, experts=Experts(count=8, active=4, ffn=1024))
    fixed = {Axis.ZERO: 1, Axis.MICROBATCH: 1, Axis.TENSOR: 1, Axis.PIPELINE: 1, Axis.EXPERT: 8}
    asked = small(model, devices=8, global_batch=64, fixed=fixed)
    both = ("1f1b", "1f1b-overlap")

    def best(question: TuningQuestion, *schedules: str) -> Candidate:
        found = search(replace(question, schedules=schedules), rows=1, time_limit_s=20).best
        assert found is not None
        return found

    plain, paired, chosen = best(asked, "1f1b"), best(asked, "1f1b-overlap"), best(asked, *both)
    assert schedule_of(chosen.training) == "1f1b-overlap"
    assert chosen.step_ns == paired.step_ns < 0.95 * plain.step_ns
    alone = replace(asked, fixed=fixed | {Axis.EXPERT: 1})
    assert schedule_of(best(alone, *both).training) == "1f1b"
    slowed = replace(asked.topology.accelerator.reached, pair_slowdown=10.0)
    accelerator = replace(asked.topology.accelerator, reached=slowed)
    contended = replace(asked, topology=replace(asked.topology, accelerator=accelerator))
    assert plain.step_ns >= best(contended, *both).step_ns >= chosen.step_ns
