"""What a part hands over, found by running a copy of it on tensors without values.

Nothing is computed and nothing in the part changes. Tensors that the part makes by itself, such as positions, are
without values too, so it is run on fake tensors of the CPU and not on the meta device, which does not mix with these.
"""

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.models.made_tensors import copy_with, made_inputs, make_empty
from evenflow_torch.models.parts import Part


def part_output(part: Part, value: torch.Tensor | tuple[torch.Tensor, ...], named: Mapping[str, Any]) -> Any:
    """Return what `part` makes of `value`, or of several, and the `named` inputs, on the meta device.

    Raises:
        InputError: the part cannot run so.
    """
    fakes = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(tensor: torch.Tensor) -> torch.Tensor:
        with fakes:
            return make_empty(tensor)

    with runs_on_fakes(part.name), torch.no_grad():
        module = copy_with(part.module, fake)  # outside of the mode, in which constants of a module cannot be copied
        with fakes:
            values = value if isinstance(value, tuple) else (value,)
            result = module(*map(fake, values), **made_inputs(dict(named), fake))
    return made_inputs(result, _on_meta)


def _on_meta(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")


@contextmanager
def runs_on_fakes(name: str) -> Iterator[None]:
    """Turn whatever stops the part called `name` on fake tensors into one message; PyTorch would log a traceback."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    was_disabled, logger.disabled = logger.disabled, True
    try:
        yield
    except (RuntimeError, NotImplementedError, TypeError, ValueError, AssertionError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(
            value=f"{type(error).__name__}: {reason}",
            rule=_("must run on tensors whose shapes are known and whose values are not"),
            place=name,
            remedy=_(
                "check the sizes, and that each layer takes what the one before gives; "
                "a layer that decides by values cannot run so"
            ),
        ) from None
    finally:
        logger.disabled = was_disabled
