"""What stages are made of: cuts, recomputation, deferred weight gradients, seeds, models, memory, comparison."""

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils.checkpoint import checkpoint

from evenflow.errors import InputError
from evenflow.model import Communication, Plan
from evenflow.run.assembly.build import microbatch_of
from evenflow.run.engine.order import runnable_order
from evenflow.run.engine.recompute_layers import check_kinds, kinds_of_cell
from evenflow.run.engine.seeds import seeded
from evenflow.run.engine.split_backward import WeightGradients
from evenflow.run.engine.stages import StageModule, boundary_shapes, cut
from evenflow.run.job.models import build_model, materialise, tokens
from evenflow.run.measure.comparison import compare
from evenflow.run.measure.live_memory import StorageMeter
from evenflow.run.measure.verify import gradient_error, loss_error
from evenflow.run.values.run_job import RunJob
from evenflow.run.values.run_result import Overhead, RankResult, RunResult
from evenflow.schedule import FAMILIES, Op
from evenflow.schedule.action import NUM_OPS
from evenflow.simulate import build_graph, run
from evenflow.simulate.costs import duration_table
from evenflow.torch_model.rows import as_row
from tests.run.job.test_launch import job
from tests.run.models import VOCABULARY, batch, llama, row

PLAN = Plan(schedule="1f1b", num_microbatches=1, layers=((1,),))


def stage_modules(model: Any, plan: Plan, **options: Any) -> list[StageModule]:
    layered = as_row(model)
    return [StageModule(stage, layered.context, **options) for stage in cut(layered, plan, runnable_order(plan))]


@settings(max_examples=25)
@given(st.lists(st.integers(0, 3), min_size=4, max_size=4).filter(any), st.sampled_from(["sdpa", "eager"]))
def test_stages_one_after_the_other_are_the_model(layers: list[int], attention: str) -> None:
    plan = Plan(schedule="interleaved", num_microbatches=2, layers=(tuple(layers[:2]), tuple(layers[2:])))
    model = llama(plan.num_layers, attention=attention)
    inputs, _ = batch(1)
    expected = model(inputs).logits
    hidden: Any = inputs
    shapes = boundary_shapes(cut(as_row(model), plan, runnable_order(plan)), as_row(model).context, inputs)
    for stage, shape in zip(stage_modules(model, plan), shapes, strict=False):
        assert (hidden.shape, hidden.dtype) == (shape.shape, shape.dtype)
        hidden = stage(hidden)
    assert torch.equal(hidden, expected)


def test_a_cut_puts_head_and_tail_on_the_ends() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((0, 2),))
    stages = cut(as_row(row(2), head_modules=1, tail_modules=1), plan, runnable_order(plan))
    assert [[part.name for part in stage.parts] for stage in stages] == [["0"], ["1", "2", "3"]]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (lambda: as_row(nn.Linear(1, 1)), "list of modules"),
        (lambda: cut(as_row(row(2)), Plan(schedule="1f1b", num_microbatches=1, layers=((1, 1),)), None), "4"),
        (lambda: runnable_order(replace(PLAN, sequence_splits=2)), "splits must be 1"),
        (lambda: runnable_order(replace(PLAN, order=("0F0,0F1,0B0,0B1",))), "plan has 1"),
        (lambda: runnable_order(replace(PLAN, order=("0F0",))), "must have backwards"),
    ],
)
def test_what_does_not_fit_is_refused(model: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        model()


@pytest.mark.parametrize("size", [0, 3, 7])
def test_a_batch_that_microbatches_do_not_divide_is_refused(size: int) -> None:
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((1,),))
    with pytest.raises(InputError, match="multiple of 4"):
        microbatch_of(torch.zeros(size, 2), plan, place="example batch")
    assert microbatch_of(torch.zeros(8, 2), plan, place="example batch").shape == (2, 2)


def test_first_layers_of_a_cell_recompute_strongest_first() -> None:
    recompute = {"comm": ((1,),), "mine": ((1,),), "full": ((2,),), "select": ((1,),)}
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((7,),), recompute=recompute)
    assert kinds_of_cell(plan, 0, 0) == ["full", "full", "select", "comm", "mine", "none", "none"]


def test_a_kind_without_sub_modules_is_refused() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((2,),), recompute={"select": ((1,),)})
    with pytest.raises(InputError, match=r"0 lacks self_attn.*recompute_modules"):
        check_kinds(plan, as_row(row(2)).parts)
    check_kinds(plan, as_row(row(2)).parts[1:3], {"select": ("1",)})


@pytest.mark.parametrize(
    ("kind", "again"), [("full", {"self_attn", "mlp"}), ("select", {"self_attn"}), ("comm", set())]
)
def test_what_recomputes_runs_once_more_in_the_backward(kind: str, again: set[str]) -> None:
    model = llama(1)
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((1,),), recompute={kind: ((1,),)})
    runs = {"self_attn": 0, "mlp": 0, "input_layernorm": 0}
    for name in runs:
        module = model.model.layers[0].get_submodule(name)
        plain = module.forward

        def counted(*arguments: Any, name: str = name, plain: Any = plain, **options: Any) -> Any:
            runs[name] += 1
            return plain(*arguments, **options)

        module.forward = counted
    (stage,) = stage_modules(model, plan)
    output = stage(batch(1)[0])
    assert set(runs.values()) == {1}
    output.sum().backward()
    repeated = again | ({"input_layernorm"} if kind in ("full", "comm") else set())
    assert runs == {name: 2 if name in repeated else 1 for name in runs}


class _Attention(nn.Module):
    """A norm inside of what recomputes as a whole."""

    def __init__(self) -> None:
        super().__init__()
        self.q_norm = nn.LayerNorm(4)
        self.runs = 0

    def forward(self, hidden: Any) -> Any:
        self.runs += 1
        return self.q_norm(hidden).square()


@pytest.mark.parametrize(("kind", "runs", "norms"), [("select", 2, 2), ("comm", 1, 2), ("both", 2, 2)])
def test_a_part_inside_a_part_recomputes_once(kind: str, runs: int, norms: int) -> None:
    layer = nn.Sequential()
    layer.add_module("attn", attention := _Attention())
    seen: list[None] = []
    plain = attention.q_norm.forward
    attention.q_norm.forward = lambda hidden: (seen.append(None), plain(hidden))[1]
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((1,),), recompute={kind: ((1,),)})
    check_kinds(plan, as_row([layer]).parts)
    (stage,) = stage_modules([layer], plan)
    stage(torch.randn(2, 4)).sum().backward()
    assert (attention.runs, len(seen)) == (runs, norms)


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_deferred_weight_gradients_are_the_ordinary_ones(recompute: bool, frozen: bool) -> None:
    def gradients(defer: bool) -> dict[str, Any]:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 2, bias=False)).double()
        model[3].weight.requires_grad_(not frozen)
        waiting = WeightGradients()
        if defer:
            waiting.defer(model)
        hidden = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
        runs: list[None] = []
        model[2].register_forward_hook(lambda *_: runs.append(None))
        for _ in range(2):
            output = checkpoint(model, hidden, use_reentrant=False) if recompute else model(hidden)
            before = None if model[0].weight.grad is None else model[0].weight.grad.clone()
            output.square().sum().backward()
            if defer:
                now = model[0].weight.grad
                assert now is None if before is None else torch.equal(now, before), "left for later"
                waiting.take()()
        assert len(runs) == (4 if recompute else 2), "recomputed once a backward"
        return {"input": hidden.grad, **{name: one.grad for name, one in model.named_parameters()}}

    plain, deferred = gradients(False), gradients(True)
    for name, gradient in plain.items():
        if gradient is None:
            assert deferred[name] is None
        else:
            torch.testing.assert_close(deferred[name], gradient, rtol=1e-14, atol=1e-14)


def test_random_numbers_outside_a_seeded_block_go_on() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    first = torch.rand(1)
    with seeded(9, torch.device("cpu")):
        inside = torch.rand(1)
    with seeded(9, torch.device("cpu")):
        assert torch.equal(torch.rand(1), inside)
    assert torch.equal(torch.cat((first, torch.rand(1))), expected)


@pytest.mark.parametrize("tied", [False, True])
def test_initial_values_do_not_depend_on_the_split(tied: bool) -> None:
    config = (
        f'{{"model_type": "llama", "tie_word_embeddings": {str(tied).lower()}, "vocab_size": 32, "hidden_size": 8, '
    )
    config += '"intermediate_size": 8, "num_attention_heads": 2, "num_hidden_layers": 2}'
    asked = _asked(config=config)

    def values(parts: slice) -> dict[str, Any]:
        model = build_model(asked)
        materialise(model, list(model.parts[parts]), seed=4, device=torch.device("cpu"))
        state = model.whole.state_dict()
        return {name: value for name, value in state.items() if not value.is_meta}

    whole, first, last = values(slice(None)), values(slice(2)), values(slice(2, None))
    assert set(first) | set(last) == set(whole)
    for part in (first, last):
        assert all(torch.equal(value, whole[name]) for name, value in part.items())
    assert torch.equal(whole["lm_head.weight"], whole["model.embed_tokens.weight"]) == tied


@pytest.mark.parametrize("config", ['{"model_type": "gpt2"}', '{"model_type": "llama", "hidden_size": "wide"}', "{}"])
def test_a_configuration_that_makes_no_llama_is_refused(config: str) -> None:
    with pytest.raises(InputError, match=r"llama|Llama"):
        build_model(_asked(config=config))


def test_tokens_are_the_same_everywhere_and_can_be_learned() -> None:
    make = partial(tokens, seed=1, batch=3, length=4, vocabulary=VOCABULARY, device=torch.device("cpu"))
    inputs, targets = make(step=2)
    assert torch.equal(targets, (inputs + 1) % VOCABULARY)
    assert torch.equal(inputs, make(step=2)[0])
    assert not torch.equal(inputs, make(step=3)[0])


def test_the_meter_counts_what_only_the_graph_holds() -> None:
    weight = torch.zeros(10, 10, dtype=torch.float64, requires_grad=True)
    with StorageMeter([weight]) as meter:
        assert meter.live_bytes() == 800
        hidden = (torch.ones(10, 10, dtype=torch.float64) @ weight).exp()  # keeps the left factor and its own result
        assert meter.live_bytes() == 800 + 2 * 800
        output = hidden.sum()
        del hidden
        assert meter.live_bytes() == 800 + 2 * 800 + 8
        output.backward()
        del output
        assert meter.live_bytes() == 800 + 800  # the gradient
        assert meter.peak_bytes() >= 800 + 3 * 800


def test_a_wrong_gradient_is_found_and_named() -> None:
    def parameter(*values: float) -> nn.Parameter:
        made = nn.Parameter(torch.zeros(len(values)))
        made.grad = torch.tensor(values)
        return made

    expected = {"a": parameter(1.0, 2.0), "b": parameter(4.0)}
    right = {name: one.grad for name, one in expected.items()}
    assert gradient_error(right, expected) == (0.0, "")
    assert gradient_error(right | {"a": torch.tensor([1.0, 2.5])}, expected) == (0.25, "a")
    assert gradient_error({"a": right["a"]}, expected) == (float("inf"), "b")
    assert gradient_error(right | {"b": None}, expected) == (float("inf"), "b")
    assert gradient_error(right | {"a": torch.tensor([float("nan"), 0.0])}, expected) == (float("inf"), "a")
    assert loss_error([2.0, 3.0], [2.0, 4.0]) == 0.25
    assert loss_error([float("nan"), 3.0], [2.0, 3.0]) == float("inf")


@settings(max_examples=25)
@given(st.sampled_from(sorted(FAMILIES)), st.integers(1, 3), st.integers(0, 50), st.integers(0, 9), st.randoms())
def test_a_run_that_goes_as_simulated_is_predicted_exactly(
    family: str, ranks: int, message_ns: int, overhead_ns: int, random: Any
) -> None:
    chunks = FAMILIES[family].num_chunks or 2
    plan = Plan(schedule=family, num_microbatches=2 * ranks, layers=((1,) * ranks,) * chunks)
    schedule = runnable_order(plan)
    stages = range(schedule.num_stages)
    forward, backward = ([random.randint(1, 99) for _ in stages] for _ in range(2))
    weight = [random.randint(1, time) if schedule.splits_backward else 0 for time in backward]
    overhead = Overhead(action_ns=overhead_ns, send_ns=2 * overhead_ns, receive_ns=3 * overhead_ns)
    table = duration_table(*(np.array(times) for times in (forward, backward, weight)))
    for stage in stages:
        for op in Op:
            # A forward's input comes from the stage before and its result goes to the one after; a backward's the other
            # way round; a weight gradient needs no message.
            for step, cost in ((-1, overhead.receive_ns), (1, overhead.send_ns)):
                other = stage + (step if op == Op.F else -step)
                if op != Op.W and 0 <= other < schedule.num_stages:
                    table[NUM_OPS * stage + op] += cost * (schedule.stage_ranks[other] != schedule.stage_ranks[stage])
            table[NUM_OPS * stage + op] += overhead_ns
    if schedule.splits_backward and Op.B in schedule.ops:  # a whole backward counts as its two parts
        table[Op.B :: NUM_OPS] += overhead_ns
    timeline = run(build_graph(schedule), table, Communication(latency_ns=message_ns))
    results = []
    for rank in range(ranks):
        span = range(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
        rows = [
            (int(schedule.ops[i]), int(schedule.stages[i]), int(schedule.units[i]),
             int(timeline.start_ns[i]) + 777, int(timeline.end_ns[i]) + 777)
            for i in span
        ]  # fmt: skip
        own = [stage for stage in stages if schedule.stage_ranks[stage] == rank]
        results.append(
            RankResult(
                forward_ns={stage: forward[stage] for stage in own},
                backward_ns={stage: backward[stage] for stage in own},
                weight_ns={stage: weight[stage] for stage in own},
                activation_bytes=dict.fromkeys(own, 10),
                weight_bytes=dict.fromkeys(own, 5),
                static_bytes=100,
                peak_bytes=0,
                actions=[rows],
            )
        )
    result = RunResult(
        model="m", num_parameters=1, losses=[1.0], message_ns=message_ns, overhead=overhead,
        ranks=results, verification=None,
    )  # fmt: skip
    comparison = compare(schedule, result)
    assert comparison.error == 0
    assert comparison.step_ns == (timeline.makespan_ns,)
    assert np.array_equal(comparison.predicted.start_ns, comparison.measured.start_ns)
    assert all(peak >= 110 for peak in comparison.predicted_peak_bytes)


def _asked(**changes: Any) -> RunJob:
    return replace(job(2), model="config.json", **changes)
