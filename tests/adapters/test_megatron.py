"""The adapter for Megatron-LM, on stand-ins for its modules; `make check-megatron` runs it on the real ones."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenflow.adapters.megatron import plan_hook, recompute_chunk, with_plan
from evenflow.errors import InputError
from evenflow.model import Plan


class Block:
    """As Megatron-LM's `TransformerBlock`: layers and a configuration that every forward reads."""

    def __init__(self, num_layers: int, granularity: str | None = None) -> None:
        self.config = SimpleNamespace(
            recompute_granularity=granularity, recompute_method=None, recompute_num_layers=None
        )
        self.layers = [
            SimpleNamespace(config=self.config, self_attention=SimpleNamespace(checkpoint_core_attention=False))
            for _layer in range(num_layers)
        ]

    def recomputed(self) -> list[str]:
        """What each layer runs under."""
        number = self.config.recompute_num_layers if self.config.recompute_granularity == "full" else 0
        return [
            "full" if index < number else "select" if layer.self_attention.checkpoint_core_attention else "none"
            for index, layer in enumerate(self.layers)
        ]


class Model:
    """A model chunk with any modules."""

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def modules(self) -> Iterator[Any]:
        yield self
        yield from self.parts


PLAN = Plan(
    schedule="interleaved",
    num_microbatches=4,
    layers=((2, 4), (3, 0)),
    recompute={"full": ((0, 1), (3, 0)), "select": ((1, 2), (0, 0))},
)


@pytest.fixture(autouse=True)
def rank(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Stand-ins for the package; the rank of this process is 1 unless changed."""
    found = {"rank": 1}
    state = SimpleNamespace(get_pipeline_model_parallel_rank=lambda: found["rank"])
    monkeypatch.setitem(sys.modules, "megatron", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "megatron.core", SimpleNamespace(parallel_state=state))
    monkeypatch.setitem(sys.modules, "megatron.core.transformer", SimpleNamespace())
    name = "megatron.core.transformer.transformer_block"
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(TransformerBlock=Block))
    return found


def test_a_hook_gives_every_chunk_of_a_rank_its_own(rank: dict[str, int]) -> None:
    blocks = [Block(4), Block(0)]
    chunks = [Model("embedding", blocks[0]), Model(blocks[1])]
    assert plan_hook(PLAN)(chunks) is chunks
    assert blocks[0].recomputed() == ["full", "select", "select", "none"]
    assert blocks[1].config.recompute_granularity is None
    rank["rank"] = 0
    blocks = [Block(2), Block(3)]
    plan_hook(PLAN)([Model(block) for block in blocks])
    assert [block.recomputed() for block in blocks] == [["select", "none"], ["full"] * 3]


def test_layers_keep_their_configuration() -> None:
    block = Block(4)
    recompute_chunk(Model(block), PLAN, chunk=0)
    assert block.config.recompute_num_layers == 1
    assert all(layer.config.recompute_granularity is None for layer in block.layers)


def test_a_model_provider_reads_a_plan_file(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    fields = {
        "layers": PLAN.layers,
        "recompute": dict(PLAN.recompute),
        "ranks": 2,
        "chunks": 2,
        "microbatches": 4,
        "schedule": "interleaved",
        "sequence_splits": 1,
    }
    file.write_text(json.dumps(fields), encoding="utf-8")

    def model_provider(pre_process: bool = True, post_process: bool = True, vp_stage: int | None = None) -> Model:
        return Model(Block(0 if vp_stage else 4))

    provide = with_plan(model_provider, file)
    assert provide(False, post_process=False, vp_stage=0).parts[0].recomputed()[0] == "full"
    assert provide(vp_stage=1).parts[0].recomputed() == []
    assert provide.__name__ == "model_provider"


@pytest.mark.parametrize(
    ("model", "chunk", "message"),
    [
        (Model(Block(3)), 0, "the model, chunk 0, rank 1 must have the 4 layers of the plan, got 3"),
        (Model(), 0, "the model, chunk 0, rank 1 must have one block of transformer layers, got 0"),
        (Model(Block(4), Block(4)), 0, "the model, chunk 0, rank 1 must have one block of transformer layers, got 2"),
        (Model(Block(4)), 2, "the model, chunk 2, rank 1 must be a cell of the plan, 2 x 2"),
        (
            Model(Block(4, "selective")),
            0,
            "the model, chunk 0, rank 1 must not recompute by itself, got 'selective'; leave out Megatron-LM's flags",
        ),
    ],
)
def test_models_that_are_not_of_the_plan(model: Model, chunk: int, message: str) -> None:
    with pytest.raises(InputError) as raised:
        recompute_chunk(model, PLAN, chunk=chunk)
    assert raised.value.message.startswith(message)


def test_layers_without_attention() -> None:
    block = Block(4)
    block.layers[1].self_attention = SimpleNamespace()
    with pytest.raises(InputError, match="must have attention in layers under select"):
        recompute_chunk(Model(block), PLAN, chunk=0)


def test_another_number_of_chunks() -> None:
    with pytest.raises(InputError, match="the model must be 2 model chunks, as in the plan, got 1"):
        plan_hook(PLAN)([Model(Block(4))])


def test_kinds_that_cannot_run() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((2, 4),), recompute={"comm": ((0, 1),)})
    says = "the plan, recompute must have kinds that can run: full, select, and sets of modules that move, got 'comm'"
    with pytest.raises(InputError, match=says):
        plan_hook(plan)
