"""The policy for torchtitan, on a stand-in for its package; `make check-torchtitan` runs it on the real one."""

import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from evenflow.adapters import torchtitan
from evenflow.errors import InputError


class FullAC:
    """As torchtitan's class: makes a wrapper of a module, and is made from its configuration."""

    @dataclass(kw_only=True, slots=True)
    class Config:
        debug: bool = False

    def __init__(self, config: Any) -> None:
        self.config = config

    def _wrap_block(self, module: Any, *, base_fqn: str | None = None) -> Any:
        return Wrapped(module)


class SelectiveAC(FullAC):
    """As torchtitan's policy of operators."""

    def _wrap_block(self, module: Any, *, base_fqn: str | None = None) -> Any:
        return Wrapped(module, by_operators=True)


class Wrapped:
    def __init__(self, inner: Any, *, by_operators: bool = False) -> None:
        self.inner, self.by_operators = inner, by_operators


class Block:
    """A layer with the sub-modules that torchtitan's have."""

    def __init__(self, *children: str) -> None:
        self.children: dict[str, Any] = dict.fromkeys(children)

    def named_modules(self) -> Iterator[tuple[str, Any]]:
        yield "", self
        yield from self.children.items()

    def get_submodule(self, name: str) -> Any:
        return self if name in ("", "moe") else name

    def register_module(self, name: str, module: Any) -> None:
        self.children[name] = module


@pytest.fixture
def policy_class(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    module = types.ModuleType("torchtitan.distributed.activation_checkpoint")
    module.FullAC = FullAC  # type: ignore[attr-defined]
    module.SelectiveAC = SelectiveAC  # type: ignore[attr-defined]
    for name in ("torchtitan", "torchtitan.distributed"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    torchtitan._policy_class.cache_clear()
    yield torchtitan._policy_class()
    torchtitan._policy_class.cache_clear()


def block() -> Block:
    return Block("attention", "feed_forward", "attention_norm", "ffn_norm")


def test_every_layer_is_wrapped_as_its_kind_says(policy_class: Any) -> None:
    policy = policy_class(config=torchtitan.recompute_layers({"full": [0], "both": [7], "select": [12], "comm": [3]}))
    found = {}
    for layer in (0, 1, 3, 7, 12):
        module = policy._wrap_block(block(), base_fqn=f"layers.{layer}")
        found[layer] = (
            "whole"
            if isinstance(module, Wrapped)
            else [name for name, child in module.children.items() if isinstance(child, Wrapped)]
        )
    assert found == {
        0: "whole",
        1: [],
        3: ["attention_norm", "ffn_norm"],
        7: ["attention", "attention_norm", "ffn_norm"],
        12: ["attention"],
    }


def test_sets_of_modules_are_the_sub_modules_that_a_layer_has(policy_class: Any) -> None:
    kinds = {"mlp": [0, 1], "moe": [2, 3], "mlp+moe": [4, 5], "mlp+shared_experts": [6, 7]}
    policy = policy_class(config=torchtitan.recompute_layers(kinds))
    experts = ("attention", "moe", "moe.shared_experts")
    found = []
    for layer in range(8):
        module = policy._wrap_block(Block(*experts) if layer % 2 else block(), base_fqn=f"layers.{layer}")
        found.append([name for name, child in module.children.items() if isinstance(child, Wrapped)])
    assert found[::2] == [["feed_forward"], [], ["feed_forward"], ["feed_forward"]]
    assert found[1::2] == [[], ["moe"], ["moe"], ["shared_experts"]]
    other = policy_class(config=torchtitan.recompute_layers({"mlp": [0]}))
    with pytest.raises(InputError, match="must be a kind that layer 0 of this model has sub-modules for, got 'mlp'"):
        other._wrap_block(Block("mixer"), base_fqn="layers.0")


def test_products_is_the_policy_of_operators(policy_class: Any) -> None:
    policy = policy_class(config=torchtitan.recompute_layers({"products": [0], "full": [1]}))
    by_operators = [policy._wrap_block(block(), base_fqn=f"layers.{layer}").by_operators for layer in (0, 1)]
    assert by_operators == [True, False]


def test_a_layer_without_the_parts_of_its_kind_is_refused(policy_class: Any) -> None:
    policy = policy_class(config=torchtitan.recompute_layers({"select": [4]}))
    with pytest.raises(InputError, match="must be a kind that layer 4 of this model has sub-modules for, got 'select'"):
        policy._wrap_block(Block("mixer"), base_fqn="layers.4")


@pytest.mark.parametrize(
    ("layers", "rule"),
    [
        (
            {"selective": [0]},
            "recompute_layers must have kinds that can run: full, both, select, comm, products, mlp, moe, "
            "shared_experts, mlp+moe, mlp+shared_experts, got 'selective'",
        ),
        ({"full": [0, 1], "select": [1]}, "recompute_layers, layers must be under one kind each, got [1]"),
    ],
)
def test_what_makes_no_sense_is_refused(layers: dict[str, list[int]], rule: str) -> None:
    with pytest.raises(InputError) as error:
        torchtitan.recompute_layers(layers)
    assert str(error.value) == rule
