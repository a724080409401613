"""Modules of a model that also work as parts of a row, where the hidden states of two sequences go along as one tensor.

Given the keyword `place`, a module computes its part of the row; without it, what it always did. It stays in the model,
under its own name and with its own parameters.
"""

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from evenflow_torch.models.made_tensors import first_tensor


class ModulePlace(NamedTuple):
    """What a module does in a row of hidden states [batch, source + target, width]; without a source all is target.

    A tuple, since tracers take no other objects among the arguments of a module.
    """

    source: int = 0
    """Tokens of the source, which an encoder reads."""
    is_target: bool = True
    """Whether it changes the target; else the source."""
    leaves: bool = False
    """Whether it hands on the target alone."""
    dropout: float = 0.0
    """Share of the result that is dropped in training."""
    scale: float = 1.0
    """Factor of the result."""

    def run(self, forward: Callable[..., Any], hidden: Tensor, named: Mapping[str, Any], *, training: bool) -> Tensor:
        """Return the row's tensor with what `forward` makes of the module's part of it."""
        if not self.source:
            return self._made(forward(hidden, **named), training=training)
        source, target = hidden[:, : self.source], hidden[:, self.source :]
        if not self.is_target:
            return torch.cat([self._made(forward(source, **named), training=training), target], dim=1)
        reads = {"encoder_hidden_states": source} if "encoder_hidden_states" in named else {}
        made = self._made(forward(target, **{**named, **reads}), training=training)
        return made if self.leaves else torch.cat([source, made], dim=1)

    def _made(self, result: Any, *, training: bool) -> Tensor:
        made = first_tensor(result)
        if self.dropout:
            made = functional.dropout(made, self.dropout, training=training)
        return made if self.scale == 1.0 else made * self.scale


class _InRow(nn.Module):
    """A module that takes `place`; mixed into the class of the module itself."""

    def forward(self, hidden: Any, *others: Any, place: ModulePlace | None = None, **named: Any) -> Any:
        if place is None:
            return super().forward(hidden, *others, **named)
        return place.run(super().forward, hidden, named, training=self.training)


class _Embeddings(nn.Module):
    """A stack without layers, which makes hidden states of tokens; mixed into the class of the stack."""

    def forward(self, tokens: Tensor, **named: Any) -> Any:
        return super().forward(input_ids=tokens, **named).last_hidden_state

    def warn_if_padding_and_no_attention_mask(self, *_arguments: Any) -> None:
        """Do not warn: transformers' warning looks at values, which tensors on the meta device do not have."""


class BothEmbeddings(nn.Module):
    """Encoder and decoder without layers, which make hidden states of a source and a target, one behind the other."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module, *, source: int) -> None:
        super().__init__()
        self.encoder, self.decoder, self._source = encoder, decoder, source

    def forward(self, tokens: Tensor) -> Tensor:
        """Return hidden states [batch, source + target, width] of tokens [batch, source + target]."""
        source, target = tokens[:, : self._source], tokens[:, self._source :]
        # A mask that is complete, since a decoder would look at the values of one that it makes, which nobody needs.
        mask = torch.zeros((1, 1, 1, 1), device=tokens.device)
        return torch.cat([self.encoder(source), self.decoder(target, attention_mask=mask)], dim=1)


def put_in_row(module: nn.Module) -> None:
    """Let a module take its `place` in a row of hidden states as an argument, in place."""
    mix_in(module, _InRow)


def mix_in(module: nn.Module, first: type) -> None:
    """Let `first` come before the class of `module`, whose name stays; what a copy of it computes is the same."""
    own: type = type(module)
    module.__class__ = _mixed(first, own)


def own_parameters(module: nn.Module) -> Mapping[str, inspect.Parameter]:
    """Return the parameters of a module's own forward, without that of the row, after ``self``."""
    own: Any = next(kind for kind in type(module).__mro__ if not issubclass(kind, _InRow))
    _self, *others = inspect.signature(inspect.unwrap(own.forward)).parameters.items()
    return dict(others)


def embeddings(base: nn.Module, layers: str, behind: Sequence[str]) -> nn.Module:
    """Return `base` without its list of layers and the modules behind them, with its own parameters otherwise."""
    shell = _shallow(base)
    container, _, last = layers.rpartition(".")
    if container:
        shell._modules[container] = _shallow(base.get_submodule(container))
    shell.get_submodule(container)._modules[last] = nn.ModuleList()
    shell._modules.update({name: nn.Identity() for name in behind if shell._modules.get(name) is not None})
    mix_in(shell, _Embeddings)
    return shell


def dropping_module(model: nn.Module) -> str | None:
    """Return the path of the first module that drops values at random, if any: by itself, or by a share that it has."""
    for path, module in model.named_modules():
        shares = [module.p] if isinstance(module, nn.Dropout) else _shares(module)
        if any(share > 0 for share in shares):
            return path
    return None


def _shares(module: nn.Module) -> list[float]:
    return [value for key, value in vars(module).items() if "dropout" in key and isinstance(value, int | float)]


def tied(module: nn.Module) -> nn.Module:
    """Return another module with the same parameters."""
    made = _shallow(module)
    made._parameters = dict(module._parameters)
    return made


def _shallow(module: nn.Module) -> nn.Module:
    made = copy.copy(module)
    made._modules = dict(module._modules)
    return made


@cache
def _mixed(first: type, own: type) -> type:
    return own if issubclass(own, first) else type(own.__name__, (first, own), {})
