"""Recomputation runs what the plan says once more, and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import nn

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow_torch.models.rows import as_row
from evenflow_torch.run.engine.recompute_layers import check_kinds, forward_of, kinds_of_cell
from tests_torch.run.models import batch, llama, row, stage_modules


def test_first_layers_of_a_cell_recompute_strongest_first() -> None:
    recompute = {"comm": ((1,),), "mine": ((1,),), "full": ((2,),), "select": ((1,),)}
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((7,),), recompute=recompute)
    assert kinds_of_cell(plan, 0, 0) == ["full", "full", "select", "comm", "mine", "none", "none"]


def test_a_kind_without_sub_modules_is_refused() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((2,),), recompute={"select": ((1,),)})
    with pytest.raises(InputError, match=r"0 lacks self_attn.*recompute_modules"):
        check_kinds(plan, as_row(row(2)).parts)
    check_kinds(plan, as_row(row(2)).parts[1:3], {"select": ("1",)})


def test_every_backward_of_a_graph_recomputes_in_a_context_of_its_own() -> None:
    opened: list[str] = []

    @contextmanager
    def inside() -> Iterator[None]:
        opened.append("begin")
        try:
            yield
        finally:
            opened.append("end")

    (part,) = as_row([nn.Linear(2, 2)]).parts
    output = forward_of(part, "full", inside=inside)(torch.ones(1, 2, requires_grad=True)).sum()
    for _ in range(2):
        output.backward(retain_graph=True)
    assert opened == ["begin", "end"] * 2


def test_names_of_a_set_are_those_of_some_layer() -> None:
    layers = as_row([nn.Sequential(nn.Linear(2, 2)), nn.Linear(2, 2)]).parts
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((2,),), recompute={"0": ((2,),)})
    check_kinds(plan, layers)
    unknown = Plan(schedule="1f1b", num_microbatches=1, layers=((2,),), recompute={"0+mine": ((1,),)})
    with pytest.raises(InputError, match=r"sub-modules that layers have, joined with \+: none has mine, got '0\+mine'"):
        check_kinds(unknown, layers)


@pytest.mark.parametrize(
    ("kind", "again"),
    [("full", {"self_attn", "mlp"}), ("select", {"self_attn"}), ("comm", set()), ("mlp+input_layernorm", {"mlp"})],
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
    repeated = again | ({"input_layernorm"} if kind not in ("none", "select") else set())
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
