"""Checkpoints of a training: folders of torch.distributed.checkpoint, which any other plan and mesh can load.

Everything has its name in the unsplit model, whatever the plan: parameters that replicas share are put together from
their parts, and split again as the next pipeline has them. Copies of a tied parameter are equal, and what the optimizer
keeps of them has the first of their names. The first rank that has a copy writes it, since another may have it split
otherwise.
"""

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.models.parts import Part

_MODEL, _OPTIMIZER, _STEPS = "model", "optimizer", "num_steps"
_OPTIONS = StateDictOptions(flatten_optimizer_state_dict=True)  # by names of parameters, not by numbers on a rank


Updated = Callable[[nn.Parameter], nn.Parameter]
"""The parameter that the optimizer updates for one that computes."""


def module_of(parts: Iterable[Part], updated: Updated | None = None) -> nn.Module:
    """Return one module with the parts of a rank at their paths in the unsplit model. It cannot be called.

    With `updated` it has those parameters in the place of the parts' own.
    """
    root = nn.Module()
    for part in parts:
        *outer, last = part.path.split(".")
        if not part.path:
            _merge(root, part.module, updated)
        elif updated is None:  # the module itself: where replicas share parameters, it has more to do when it is saved
            _place(root, outer).add_module(last, part.module)
        else:
            _merge(_place(root, [*outer, last]), part.module, updated)
    return root


def _place(root: nn.Module, names: Sequence[str]) -> nn.Module:
    """Return the module at a path, made where it is missing."""
    place = root
    for name in names:
        if name not in place._modules:
            place.add_module(name, nn.Module())
        place = place.get_submodule(name)
    return place


def _merge(place: nn.Module, module: nn.Module, updated: Updated | None) -> None:
    """Put the parameters and buffers of a module, and of those inside, beside those that are at `place` already."""
    for name, parameter in module._parameters.items():
        replaced = None if parameter is None or updated is None else updated(parameter)
        place.register_parameter(name, parameter if replaced is None else replaced)
    for name, buffer in module._buffers.items():
        place.register_buffer(name, buffer, persistent=name not in module._non_persistent_buffers_set)
    for name, inside in module._modules.items():
        assert inside is not None
        _merge(_place(place, [name]), inside, updated)


class Checkpoint:
    """The state of a rank's modules and of their optimizer, if there is one."""

    def __init__(
        self,
        module: nn.Module,
        optimizer: torch.optim.Optimizer | None,
        *,
        tied: Sequence[Sequence[str]],
        copies: Set[str],
        repeated: Set[str],
    ) -> None:
        """`tied` are names of the same parameter; an earlier rank has parameters that `copies` names, and has those of
        `repeated` under the same name.
        """
        self._module = module
        self._optimizers = () if optimizer is None else (optimizer,)
        self._model, optimized = get_state_dict(module, self._optimizers, options=_OPTIONS)
        first = {name: names[0] for names in tied for name in names}
        self._keys = {_under(first, key): key for key in optimized}
        self._optimized = {name: optimized[key] for name, key in self._keys.items()}
        self._copies = {name for name, key in self._keys.items() if _parameter_of(key) in copies}
        self._repeated = repeated

    def save(self, num_steps: int, folder: Path) -> None:
        """Write it; every rank calls this."""
        _say_nothing_of_older_ones()
        dcp.save(self._written(num_steps), checkpoint_id=folder)

    def save_beside(self, num_steps: int, folder: Path, group: dist.ProcessGroup) -> Future[Any]:
        """Begin to write it, from copies in the host's memory; `group` is not used for anything else meanwhile."""
        _say_nothing_of_older_ones()
        saving = dcp.async_save(self._written(num_steps), checkpoint_id=folder, process_group=group)
        assert isinstance(saving, Future)
        return saving

    def load(self, folder: Path) -> int:
        """Load what `save` has written; return the number of steps. Every rank calls it.

        Raises:
            InputError: no checkpoint is there, or one of another model.
        """
        if not (folder / ".metadata").exists():
            raise InputError(
                value=str(folder),
                rule=_("must be the folder of a checkpoint, which all ranks can read"),
                place=_("checkpoint"),
            )
        state = self._state(0)
        try:
            dcp.load(state, checkpoint_id=folder)
        except (dcp.api.CheckpointException, RuntimeError, KeyError) as error:
            raise InputError(
                value=str(folder),
                rule=_("must be of the same model and optimizer: {error}", error=str(error).strip().splitlines()[-1]),
                place=_("checkpoint"),
            ) from None
        loaded = state.get(_OPTIMIZER, {})
        set_state_dict(
            self._module,
            self._optimizers,
            model_state_dict=state[_MODEL],
            optim_state_dict={key: loaded[name] for name, key in self._keys.items()},
            options=_OPTIONS,
        )
        return int(state[_STEPS])

    def _state(self, num_steps: int) -> dict[str, Any]:
        optimized = {_OPTIMIZER: self._optimized} if self._optimizers else {}
        return {_MODEL: self._model, **optimized, _STEPS: num_steps}

    def _written(self, num_steps: int) -> dict[str, Any]:
        """Return what this rank writes: all but what an earlier rank has too."""
        state = self._state(num_steps)
        for kind, omitted in ((_MODEL, self._repeated), (_OPTIMIZER, self._copies)):
            if kind in state:
                state[kind] = {name: value for name, value in state[kind].items() if name not in omitted}
        return state


def _say_nothing_of_older_ones() -> None:
    """Let torch not warn of a checkpoint in the same folder: it is replaced, as whoever names a folder again wants."""
    warnings.filterwarnings("ignore", message="Detected an existing checkpoint", category=UserWarning)


def _under(first: Mapping[str, str], key: str) -> str:
    """Return the key of a value of the optimizer, as ``state.NAME.exp_avg``, with the first name of a parameter."""
    kind, last, name = key.partition(".")[0], key.rpartition(".")[2], _parameter_of(key)
    return ".".join((kind, first.get(name, name), last))


def _parameter_of(key: str) -> str:
    """Return the parameter's name in the key of a value of the optimizer."""
    return key.partition(".")[2].rpartition(".")[0]
