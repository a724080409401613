"""Moves by layer with the adapter for Megatron-LM, on stand-ins for its modules and for its manager of groups."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from evenflow.adapters.megatron import plan_hook
from evenflow.adapters.megatron_moves import keep_others
from evenflow.errors import InputError
from evenflow.model import Plan
from tests.adapters.test_megatron import Block, Model

MOVES, MORE = "offload_core_attn", "offload_core_attn+offload_expert_fc1"
PLAN = Plan(
    schedule="interleaved",
    num_microbatches=4,
    layers=((4, 1), (3, 2)),
    recompute={"full": ((1, 0), (0, 0)), MORE: ((1, 0), (0, 2)), MOVES: ((1, 1), (2, 0))},
)


class Manager:
    """As Megatron-LM's `PipelineOffloadManager`: it decides after the first step."""

    def __init__(self, *handlers: Any) -> None:
        self._cached_chunks_forward = handlers
        self.has_decided = False

    def post_warmup_callback(self) -> None:
        self.has_decided = True


@pytest.fixture(autouse=True)
def manager(monkeypatch: pytest.MonkeyPatch) -> type[Manager]:
    """Stand-ins for the package, on rank 0."""
    own = type("Manager", (Manager,), {"post_warmup_callback": Manager.post_warmup_callback})
    state = SimpleNamespace(get_pipeline_model_parallel_rank=lambda: 0)
    names = {
        "megatron": SimpleNamespace(),
        "megatron.core": SimpleNamespace(parallel_state=state),
        "megatron.core.transformer": SimpleNamespace(),
        "megatron.core.transformer.transformer_block": SimpleNamespace(TransformerBlock=Block),
        "megatron.core.pipeline_parallel": SimpleNamespace(),
        "megatron.core.pipeline_parallel.fine_grained_activation_offload": SimpleNamespace(PipelineOffloadManager=own),
    }
    for name, stand_in in names.items():
        monkeypatch.setitem(sys.modules, name, stand_in)
    return own


def block(num_layers: int, *, dense: int = 0, modules: tuple[str, ...] = ("core_attn", "expert_fc1")) -> Block:
    """A block that moves these modules of all layers, the first `dense` of which have no experts."""
    built = Block(num_layers)
    built.config.fine_grained_activation_offloading = bool(modules)
    built.config.offload_modules = list(modules)
    for index, layer in enumerate(built.layers):
        layer.self_attention.offload_core_attention = "core_attn" in modules
        layer.mlp = SimpleNamespace()
        if index >= dense:
            layer.mlp.experts = SimpleNamespace(offload_expert_fc1="expert_fc1" in modules)
    return built


def groups(built: Block) -> list[Any]:
    """The groups that a forward opens, in its order."""
    opened = []
    for number, layer in enumerate(built.layers):
        if layer.self_attention.offload_core_attention:
            opened.append(SimpleNamespace(_name="core_attn", layer=number, offload=True))
        if getattr(getattr(layer.mlp, "experts", None), "offload_expert_fc1", False):
            opened.append(SimpleNamespace(_name="expert_fc1", layer=number, offload=True))
    return opened


def moved(own: list[Any]) -> set[tuple[int, str]]:
    return {(group.layer, group._name) for group in own if group.offload}


def test_every_cell_moves_its_own_layers(manager: type[Manager]) -> None:
    blocks = [block(4, dense=1), block(3)]
    plan_hook(PLAN)([Model(own) for own in blocks])
    assert not blocks[0].layers[0].self_attention.offload_core_attention  # it is computed again
    of_chunks = [groups(own) for own in blocks]
    later = groups(blocks[1])
    running = manager(
        *(SimpleNamespace(vpp_rank=chunk, offload_groups=own) for chunk, own in enumerate([*of_chunks, later][:2])),
        SimpleNamespace(vpp_rank=1, offload_groups=later),
    )
    running.post_warmup_callback()
    assert running.has_decided
    assert moved(of_chunks[0]) == {(1, "core_attn"), (1, "expert_fc1"), (2, "core_attn")}
    assert moved(of_chunks[1]) == moved(later) == {(0, "core_attn"), (1, "core_attn")}


def test_what_megatron_keeps_stays(manager: type[Manager]) -> None:
    blocks = [block(4), block(3)]
    plan_hook(PLAN)([Model(own) for own in blocks])
    own = groups(blocks[0])
    own[0].offload = False
    manager(SimpleNamespace(vpp_rank=0, offload_groups=own)).post_warmup_callback()
    assert moved(own) == {(1, "expert_fc1"), (2, "core_attn")}


def test_a_second_model_decides_anew(manager: type[Manager]) -> None:
    for _model in range(2):
        plan_hook(PLAN)([Model(block(4)), Model(block(3))])
    own = groups(block(3))
    manager(SimpleNamespace(vpp_rank=1, offload_groups=own)).post_warmup_callback()
    assert moved(own) == {(0, "core_attn"), (1, "core_attn")}


@pytest.mark.parametrize("modules", [(), ("core_attn",), ("core_attn", "expert_fc1", "moe_act")])
def test_flags_of_other_modules_are_refused(modules: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="must move the modules of the plan: core_attn, expert_fc1"):
        plan_hook(PLAN)([Model(block(4, modules=modules)), Model(block(3, modules=modules))])


def test_a_set_that_also_computes_again_is_refused() -> None:
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((1,),), recompute={f"layernorm+{MOVES}": ((1,),)})
    with pytest.raises(InputError, match="must have kinds that can run: full, select, and sets of modules that move"):
        plan_hook(plan)


def test_layers_that_predict_further_tokens_do_as_the_last_one_of_the_cell() -> None:
    opened = [SimpleNamespace(_name="core_attn", offload=True) for _layer in range(4)]
    keep_others(opened, {"core_attn": [True, False, True]})
    assert [group.offload for group in opened] == [True, False, True, True]
