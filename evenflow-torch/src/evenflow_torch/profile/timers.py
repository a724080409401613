"""Where the times of a model's parts come from: a device that runs them, or the rates of an accelerator."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch

from evenflow.cluster import DTYPES
from evenflow.errors import InputError
from evenflow.fields import check_one_of
from evenflow.language import _
from evenflow.profiles.accelerator_file import accelerator_given
from evenflow_torch.models.part_trace import PartTrace
from evenflow_torch.models.parts import Part
from evenflow_torch.profile.measure import REPEATS, measure
from evenflow_torch.profile.part_times import PartTimes, Roofline
from evenflow_torch.requests import FAKE

DEVICES = ("cpu", "cuda")
"""The devices that times are measured on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timer:
    """A source of times."""

    times: Callable[[Part, Mapping[str, PartTrace]], PartTimes]
    """Gives the times of a part from the part and its traces by recompute kind."""
    origin: str
    """Where the times come from, as a sentence."""
    is_measured: bool
    """Whether a device runs the parts."""


def timer(*, device: str, accelerator: str | None = None, efficiency: float | None = None) -> Timer:
    """Return what times parts on `device`, or, for ``fake``, computes their times on an accelerator.

    `efficiency` is the share of their peak that large matrix products reach, if not the accelerator's own.

    Raises:
        InputError: an unknown or missing accelerator, a device that is not there, an efficiency that is no share.
    """
    if device == FAKE:
        return _computed(accelerator, efficiency)
    check_one_of(device, (FAKE, *DEVICES), place="device")
    if device == "cuda" and not torch.cuda.is_available():
        raise InputError(
            value=device,
            rule=_("must be a device that PyTorch sees"),
            place="device",
            remedy=_("take times from an accelerator's rates: fake"),
        )
    return Timer(
        times=lambda part, traces: measure(part, list(traces), device=torch.device(device)),
        origin=_("times are measured on {device}, the median of {repeats}", device=device, repeats=REPEATS),
        is_measured=True,
    )


def _computed(accelerator: str | None, efficiency: float | None) -> Timer:
    if accelerator is None:
        raise InputError(
            rule=_("must be given where no device measures times"),
            place="accelerator",
            remedy=_("name one"),
        )
    known = accelerator_given(accelerator).reaching(efficiency)
    roofline = Roofline(accelerator=known)
    dtypes = [dtype for dtype in known.flops_per_s_of if dtype in DTYPES]
    return Timer(times=lambda _part, traces: roofline.times(traces), origin=known.origin(dtypes), is_measured=False)
