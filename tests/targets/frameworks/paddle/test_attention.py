"""Attention alone that recomputes: sets of modules as the granularities of Paddle's models, and through the adapter."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evenflow.adapters.paddle import planned_layers
from evenflow.errors import InputError
from evenflow.model import FULL, Plan, cells
from evenflow.profiles.yaml_values import load_document
from evenflow.targets.frameworks.paddle.target import TARGET
from evenflow.targets.refusal import refusal
from evenflow.targets.target import Baseline, GivenSizes
from tests.adapters.stub_packages import Module, Spec, is_recomputed, paddle

__all__ = ["paddle"]
VERSION = TARGET.versions[-1]
ABILITIES = TARGET.abilities(VERSION)


class Block(Module):
    """A layer with attention inside."""

    def __init__(self, name: int = 0) -> None:
        super().__init__(name)
        self.self_attn = Module(name)


def read(text: str, num_layers: int) -> Baseline:
    assert TARGET.read is not None
    return TARGET.read(text, "args.yaml", GivenSizes(num_layers=num_layers))


@st.composite
def plans(draw: st.DrawFn, *kinds: str) -> Plan:
    """Even cells, which arguments can say, with some first layers under these kinds."""
    ranks, count = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    tables: dict[str, list[int]] = {kind: [] for kind in kinds}
    for _rank in range(ranks):
        left = count
        for kind in kinds:
            tables[kind].append(draw(st.integers(0, left)))
            left -= tables[kind][-1]
    recompute = {kind: cells([counts]) for kind, counts in tables.items() if any(counts)}
    return Plan(schedule="1f1b", num_microbatches=8, layers=((count,) * ranks,), recompute=recompute)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plan=plans(FULL, "full_attn"))
def test_the_first_layers_recompute_and_the_attention_of_the_next_ones(paddle: None, plan: Plan) -> None:
    assert refusal(plan, ABILITIES, title=TARGET.title) is None
    entries: list[Any] = [Spec(Block, index) if index % 2 else Block(index) for index in range(plan.num_layers + 2)]
    written: dict[str, Any] = {}
    exec(TARGET.write(plan, VERSION).pieces[0].text, written)
    numbers = [written[name] for name in ("LAYERS", "RECOMPUTED", "ATTENTION") if name in written]
    for result, method in (
        planned_layers(list(entries), plan, head=1, tail=1),
        written["staged"](fresh(entries), *numbers, chunks=1, head=1, tail=1),
    ):
        assert method == [0, *[1 + plan.layers[0][0] * (rank + 1) for rank in range(plan.num_ranks - 1)], len(entries)]
        wanted = ["none"]
        for rank in range(plan.num_ranks):
            wanted += [kind for kind in (FULL, "full_attn", "none") for _layer in range(plan.count(kind, 0, rank))]
        assert [under(entry) for entry in result] == [*wanted, "none"]


def fresh(entries: list[Any]) -> list[Any]:
    return [Block(entry.name) if isinstance(entry, Module) else entry for entry in entries]


def under(entry: Any) -> str:
    """The kind that an entry is under, by what runs through the function that recomputes."""
    block = entry.build_layer() if isinstance(entry, Spec) else entry
    if is_recomputed(block, build="build_layer"):
        return FULL
    return "full_attn" if is_recomputed(block.self_attn, build="build_layer") else "none"


def test_a_layer_without_attention_is_refused(paddle: None) -> None:
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((1, 1),), recompute={"full_attn": ((1, 0),)})
    with pytest.raises(ValueError, match="Module must have the sub-layer self_attn, which recomputes"):
        planned_layers([Module(), Module()], plan, head=0, tail=0)


@given(plan=plans("core_attn"))
def test_the_core_of_attention_is_an_argument_and_reads_back(plan: Plan) -> None:
    assert refusal(plan, ABILITIES, title=TARGET.title) is None
    pieces = [piece for piece in TARGET.write(plan, VERSION).pieces if "recompute_granularity: core" in piece.text]
    assert len(pieces) == bool(plan.used_kinds)
    for piece in pieces:
        text = f"pp_degree: {plan.num_ranks}\naccumulate_steps: 8\nseg_method: layer:Layer\n{piece.text}"
        found = read(text, plan.num_layers)
        assert (found.plan, found.unknown, found.notes) == (plan, (), ())
        skipped = load_document(piece.text, file="x").value["no_recompute_layers"]
        assert len(skipped) == plan.num_layers - plan.num_recomputed


@pytest.mark.parametrize("kind", ["core_attn", "full_attn"])
@pytest.mark.parametrize("layers", [((1, 3, 2),), ((2, 2, 2), (2, 2, 2))])
def test_one_set_in_all_layers_is_an_argument_of_paddleformers(kind: str, layers: Any) -> None:
    schedule = "1f1b" if len(layers) == 1 else "interleaved"
    plan = Plan(schedule=schedule, num_microbatches=8, layers=layers, recompute={kind: layers})
    piece = TARGET.write(plan, VERSION).pieces[-1]
    assert f'recompute_granularity: selective\nrecompute_modules: ["{kind}"]\n' in piece.text
    found = read(piece.text, plan.num_layers)
    assert (found.plan, found.unknown) == (plan, ())


def test_layers_that_are_left_out_may_be_anywhere() -> None:
    arguments = {"pipeline_parallel_degree": 2, "gradient_accumulation_steps": 4, "recompute": True}
    arguments |= {"seg_method": "layer:Layer", "recompute_granularity": "full_attn", "no_recompute_layers": [0, 3]}
    found = read(json.dumps(arguments), 4)
    assert found.plan.recompute == {"full_attn": ((1, 1),)}
    assert found.notes == ("layers that recompute are counted as the first of their stage",)
    assert found.unknown == ()
    with pytest.raises(InputError, match=r"no_recompute_layers must be a list of layers, from 0 to 3"):
        read(json.dumps(arguments | {"no_recompute_layers": [4]}), 4)


def test_core_and_whole_layers_never_mix() -> None:
    plan = Plan(
        schedule="1f1b", num_microbatches=8, layers=((2, 2),), recompute={FULL: ((1, 0),), "core_attn": ((0, 1),)}
    )
    assert "must be recomputation that Paddle has a way for" in str(refusal(plan, ABILITIES, title=TARGET.title))


def test_several_modules_are_not_understood() -> None:
    text = "pp_degree: 2\naccumulate_steps: 4\nseg_method: uniform\nrecompute_granularity: selective\n"
    found = read(text + 'recompute_modules: ["full_attn", "mlp"]\n', 4)
    assert found.plan.recompute == {}
    assert found.unknown == ("args.yaml, line 5: recompute_modules",)
