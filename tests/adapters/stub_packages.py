"""Stand-ins for DeepSpeed and Paddle with as much as the adapters use; `checks/` has the real packages."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest


class Module:
    """A layer."""

    def __init__(self, name: int = 0) -> None:
        self.name = name

    def forward(self, inputs: Any) -> Any:
        return inputs


class Spec:
    """A layer that is made later; both packages call it differently."""

    def __init__(self, typename: type, *arguments: Any) -> None:
        self.typename, self.arguments = typename, arguments

    def build(self, log: bool = False) -> Any:
        return self.typename(*self.arguments)

    def build_layer(self, **more: Any) -> Any:
        return self.typename(*self.arguments, **more)


def checkpoint(function: Any, *inputs: Any, **options: Any) -> Any:
    """Stands for the checkpoint function of both packages: its result says that it ran."""
    return "recomputed", function(*inputs)


@pytest.fixture
def deepspeed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(nn=SimpleNamespace(Module=Module)))
    monkeypatch.setitem(sys.modules, "deepspeed.pipe", SimpleNamespace(LayerSpec=Spec))
    monkeypatch.setitem(
        sys.modules,
        "deepspeed.runtime.activation_checkpointing.checkpointing",
        SimpleNamespace(non_reentrant_checkpoint=checkpoint),
    )


@pytest.fixture
def paddle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "paddle", SimpleNamespace(nn=SimpleNamespace(Layer=Module)))
    monkeypatch.setitem(sys.modules, "paddle.distributed.fleet.meta_parallel", SimpleNamespace(LayerDesc=Spec))
    monkeypatch.setitem(sys.modules, "paddle.distributed.fleet.utils", SimpleNamespace(recompute=checkpoint))


def class_name(entry: Any) -> str:
    """The name that both packages look at: of a function, or of the class of a module, made or still described."""
    if isinstance(entry, Spec):
        return getattr(entry, "layer_func", entry.typename).__name__
    return type(entry).__name__ if isinstance(entry, Module) else getattr(entry, "__name__", "")


def is_recomputed(entry: Any, *, build: str) -> bool:
    """Whether what an entry makes goes through the checkpoint function when it runs."""
    module = getattr(entry, build)() if isinstance(entry, Spec) else entry
    result = module.forward(1) if isinstance(module, Module) else module(1)
    return isinstance(result, tuple) and result[0] == "recomputed"


def made(entry: Any, *, build: str) -> Any:
    """What runs for an entry, without the checkpoint function: a module by its name, or the result of a function."""
    module = getattr(entry, build)() if isinstance(entry, Spec) else entry
    if isinstance(module, Module):
        return type(module), module.name
    result = module(1)
    return result[1] if isinstance(result, tuple) else result
