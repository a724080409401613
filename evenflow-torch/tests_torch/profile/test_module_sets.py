"""Sets of the modules of a layer: what they free is what torch frees, and no other set beats the best ones."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

import evenflow
from evenflow.cluster.dtypes import Dtype
from evenflow.errors import InputError
from evenflow.fields import as_fields
from evenflow.model import FULL, NONE, Network
from evenflow.predict.chosen_sets import BEST
from evenflow.profiles.layer_file import format_layer_file, parse_layer_file
from evenflow_torch.models.checkpointing import modules_of_sets
from evenflow_torch.models.made_tensors import copy_with, first_tensor, made_inputs, maker_of_values
from evenflow_torch.models.parts import ModelRow, Part
from evenflow_torch.models.rows import row_with_inputs
from evenflow_torch.models.training_row import read_decoder
from evenflow_torch.profile import profile, profile_config
from evenflow_torch.profile.model_profile import ModelProfile, profile_row
from evenflow_torch.profile.module_sets import MOST_SETS, with_module_sets
from evenflow_torch.profile.timers import timer
from tests_torch.models.layers import GptLayer, llama_config

TIMES = timer(device="fake", accelerator="a100")


class Attention(nn.Module):
    """Scores that are kept, between two norms."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.out = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        query, key = (norm(x) for norm in self.norms)
        return self.out(torch.softmax(query @ key.transpose(-1, -2), dim=-1) @ x)


class Block(nn.Module):
    """Modules inside modules, of which some save and some do not."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention = Attention(width)
        self.norm = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.unused = nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.mlp(self.norm(x + self.attention(x)))


def decoder(**sizes: object) -> ModelRow:
    config = as_fields(llama_config(**sizes), file="config.json")
    return read_decoder(config, name="small", sequence=16, microbatch=1, dtype=Dtype.FLOAT32)


ROWS = {
    "llama": decoder(),
    "qwen3": decoder(model_type="qwen3"),
    "gpt": row_with_inputs([GptLayer(16, 2)], torch.zeros(1, 8, 16)),
    "own": row_with_inputs([Block(8)], torch.zeros(2, 64, 8)),
}


def profiled(row: ModelRow, sets: Sequence[Sequence[str]]) -> ModelProfile:
    kinds = (NONE, *map("+".join, sets), FULL)
    return profile_row(row, timer=TIMES, optimizer="sgd", kinds_of_layer=lambda _layer: kinds)


def outermost(modules: Sequence[str]) -> bool:
    return not any(inner.startswith(f"{outer}.") for inner in modules for outer in modules)


def kept_by_torch(part: Part, modules: Sequence[str]) -> int:
    """Return what torch's allocator has more after a forward in which just these modules are under a checkpoint."""
    make = maker_of_values(torch.device("cpu"), part.index_limit)
    layer = copy_with(part.module, make)
    inputs, named = list(made_inputs(part.inputs, make)), made_inputs(dict(part.named_inputs), make)
    for name in modules:
        module = layer.get_submodule(name)
        module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False, preserve_rng_state=False)
    inputs[0].requires_grad_(requires_grad=True)
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, profile_memory=True, acc_events=True) as watched:
        result = first_tensor(layer(*inputs, **named))
    assert result.grad_fn is not None  # and is still there, as in every run
    return sum(event.self_cpu_memory_usage for event in watched.key_averages())


@pytest.mark.parametrize("name", ROWS)
def test_what_a_set_frees_is_what_torch_frees(name: str) -> None:
    part = ROWS[name].body[0]
    saving = saving_modules(ROWS[name])
    sets = [(name,) for name in saving]
    sets += [modules for modules in combinations(saving, 2) if outermost(modules)][:2]
    found = profiled(ROWS[name], sets).layers[0].activation_bytes
    plain = kept_by_torch(part, ())
    freed = {modules: plain - kept_by_torch(part, modules) for modules in sets}
    assert {modules: found[NONE] - found["+".join(modules)] for modules in sets} == freed
    assert all(size > 0 for size in freed.values())


@pytest.mark.parametrize("name", ["qwen3", "own"])
def test_no_other_set_beats_the_best(name: str) -> None:
    best = costs(profile_best(ROWS[name]))
    every = profiled(ROWS[name], all_sets(saving_modules(ROWS[name])))
    hull = sorted(best.values())
    for kind, (kept, time_ns) in costs(every).items():
        assert time_ns >= least_time(hull, kept), kind
    assert 2 < len(best) <= MOST_SETS + 2


def saving_modules(row: ModelRow) -> list[str]:
    names = modules_of_sets(row.body[0].module)
    alone = profiled(row, [(name,) for name in names]).layers[0].activation_bytes
    return [name for name in names if alone[name] < alone[NONE]]


def all_sets(names: Sequence[str]) -> list[tuple[str, ...]]:
    sizes = range(1, len(names) + 1)
    return [modules for size in sizes for modules in combinations(names, size) if outermost(modules)]


def profile_best(row: ModelRow) -> ModelProfile:
    return with_module_sets(
        BEST,
        row.body,
        lambda kinds: profile_row(row, timer=TIMES, optimizer="sgd", kinds_of_layer=kinds),
    )


def costs(found: ModelProfile) -> dict[str, tuple[int, int]]:
    layer = found.layers[0]
    return {kind: (kept, layer.times.backward_ns[kind]) for kind, kept in layer.activation_bytes.items()}


def least_time(hull: Sequence[tuple[int, int]], kept: int) -> float:
    """Return the time of the mixture of two corners that keeps as much."""
    least = min(time_ns for size, time_ns in hull if size <= kept) if kept >= hull[0][0] else float("inf")
    for before, after in combinations(hull, 2):
        if before[0] <= kept <= after[0] and before[0] < after[0]:
            share = (kept - before[0]) / (after[0] - before[0])
            least = min(least, before[1] + share * (after[1] - before[1]) - 1)  # each time is rounded
    return least


class TestKinds:
    def test_named_sets_are_the_kinds_beside_full(self) -> None:
        network = own_profile([["norm", "attention"], ["mlp"], ["attention", "norm"]])
        assert network.kinds == ("full", "attention+norm", "mlp", "none")
        assert parse_layer_file(format_layer_file(network), place="x") == network

    def test_paths_of_inner_modules_are_kinds_of_a_layer_file(self) -> None:
        network = own_profile([["attention.norms.0", "mlp.1"]])
        assert network.kinds == ("full", "attention.norms.0+mlp.1", "none")
        assert parse_layer_file(format_layer_file(network), place="x") == network

    def test_layers_without_a_module_keep_all_that_they_keep(self) -> None:
        network = profile(
            [Block(8), nn.Linear(8, 8)], torch.zeros(2, 64, 8), accelerator="a100", recompute_sets=[["mlp"]]
        )
        modes = [layer.modes for layer in network.layers]
        assert modes[0]["mlp"].activation_bytes < modes[0][NONE].activation_bytes
        assert modes[1]["mlp"] == modes[1][NONE]

    @pytest.mark.parametrize(
        ("sets", "message"),
        [
            ([["mlps"]], "--recompute-sets must be modules of a layer: attention, attention.norms.0.*'mlps'.*mlp"),
            ("all", "--recompute-sets must be sets of modules, or best, got 'all'"),
        ],
    )
    def test_what_is_no_set_is_refused(self, sets: object, message: str) -> None:
        with pytest.raises(InputError, match=message):
            own_profile(sets)

    def test_where_nothing_saves_the_best_are_refused(self) -> None:
        with pytest.raises(InputError, match="must be left out: no set of modules saves anything"):
            profile([nn.Linear(4, 4)], torch.zeros(2, 4), accelerator="a100", recompute_sets="best")

    def test_tables_of_predict_keep_sets_of_the_trace(self) -> None:
        config = llama_config(hidden_size=256, intermediate_size=1024)
        plain, found = (
            profile_config(config, sequence=64, accelerator="a100", recompute_sets=sets) for sets in (None, "best")
        )
        before, after = plain.layers[0].activation_bytes, found.layers[0].activation_bytes
        assert (before[NONE], before[FULL]) == (after[NONE], after[FULL])
        assert len(after) > 2
        assert all(before[FULL] < size < before[NONE] for kind, size in after.items() if kind not in (NONE, FULL))


def own_profile(sets: object) -> Network:
    return profile([Block(8)] * 2, torch.zeros(2, 64, 8), accelerator="a100", recompute_sets=sets)


def test_more_kinds_never_lengthen_a_proven_optimum() -> None:
    steps = []
    for sets in ([["attention"]], [["attention"], ["mlp"]], [["attention"], ["mlp"], ["attention", "norm"], ["norm"]]):
        network = own_profile(sets)
        (run,) = network.runs
        network = replace(network, runs=(replace(run, count=6),), constant_bytes=0)
        whole = 6 * run.layer.modes[NONE].activation_bytes + 3 * run.layer.parameter_bytes
        outcome = evenflow.plan(
            network, num_ranks=2, num_chunks=1, num_microbatches=4, memory_limit_bytes=whole * 13 // 20, mix_any=True
        )
        assert outcome.status is evenflow.Status.OPTIMAL
        assert outcome.makespan_ns is not None
        steps.append(outcome.makespan_ns)
    assert steps == sorted(steps, reverse=True)
    assert steps[-1] < steps[0]
