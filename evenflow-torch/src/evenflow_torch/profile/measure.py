"""Times of a part on a real device."""

import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.autograd.graph import get_gradient_edge

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import NONE
from evenflow_torch.models.checkpointing import recomputing
from evenflow_torch.models.made_tensors import copy_with, first_tensor, made_inputs, maker_of_values
from evenflow_torch.models.part_trace import source
from evenflow_torch.models.parts import Part
from evenflow_torch.profile.exchange_times import ExchangeLog, NotedPass, measured_halves
from evenflow_torch.profile.part_times import PartTimes

WARM_UPS = 2
REPEATS = 7


def measure(part: Part, kinds: Sequence[str], *, device: torch.device) -> PartTimes:
    """Run `part` on `device` with made-up values: the median of several forwards and backwards under every kind.

    The input gradient is the backward for the first input alone, in which autograd leaves all weight gradients out;
    the weight gradient is what the whole backward takes more, each at its fastest. Where the part exchanges tokens
    between experts, on devices that all measure it at once, its halves are measured too.

    Raises:
        InputError: the part does not run on the device, because its memory is too small or an operator is missing.
    """
    try:
        return _measure(part, kinds, device)
    except (RuntimeError, MemoryError) as error:
        raise InputError(
            value=" ".join(str(error).split())[:200],
            rule=_("must run forward and backward on {type}", type=device.type),
            place=part.name,
            remedy=_("make sequence or microbatch smaller, or take times from an accelerator with --device fake"),
        ) from None


def _measure(part: Part, kinds: Sequence[str], device: torch.device) -> PartTimes:
    make = maker_of_values(device, part.index_limit)
    torch.manual_seed(0)
    module = copy_with(part.module, make)
    for parameter in module.parameters():
        parameter.grad = torch.zeros_like(parameter)
    inputs, named = made_inputs(part.inputs, make), made_inputs(dict(part.named_inputs), make)
    run = _Runs(module, inputs, named, takes_gradient=part.takes_gradient, wait=_waiting(device))
    forwards, backwards, input_gradients = [], {}, []
    for kind in kinds:
        with recomputing(module, kind):
            samples = run.repeated(whole=True)
        backwards[kind] = [backward.total_ns for _, backward in samples]
        if kind == NONE:
            forwards = [forward.total_ns for forward, _ in samples]
    if part.takes_gradient:
        input_gradients = [backward.total_ns for _, backward in run.repeated(whole=False)]
    plain_ns = _median(backwards[NONE])
    times = PartTimes(
        forward_ns=_median(forwards),
        backward_ns={kind: max(plain_ns, _median(samples)) for kind, samples in backwards.items()},
        weight_ns=round(plain_ns * _weight_share(backwards[NONE], input_gradients)),
        spread=max(_spread(samples) for samples in (forwards, *backwards.values())),
    )
    return _with_halves(times, run, takes_gradient=part.takes_gradient)


def _with_halves(times: PartTimes, run: "_Runs", *, takes_gradient: bool) -> PartTimes:
    """Return times with the halves of the part, where it exchanges tokens: its passes run again, and that is noted.

    Devices that exchange tokens run as many passes as each other, as all of them see the exchanges.
    """
    if not any(each.exchanges for each in run.once(whole=True, notes_exchanges=True)):
        return times
    forwards, backwards = zip(*run.repeated(whole=True, notes_exchanges=True), strict=True)
    without = run.repeated(whole=False, notes_exchanges=True) if takes_gradient else ()
    halves = measured_halves(
        forwards,
        backwards,
        [backward for _, backward in without],
        forward_ns=times.forward_ns,
        backward_ns=times.backward_ns[NONE],
    )
    return replace(times, exchanges_tokens=True, halves=halves)


class _Runs:
    """The same forward and backward, to be repeated."""

    def __init__(
        self,
        module: nn.Module,
        inputs: Sequence[Any],
        named: dict[str, Any],
        *,
        takes_gradient: bool,
        wait: Callable[[], None],
    ) -> None:
        self._module, self._inputs, self._named, self._wait = module, inputs, named, wait
        self._takes_gradient = takes_gradient
        self._token = torch.zeros((), requires_grad=True)

    def repeated(self, *, whole: bool, notes_exchanges: bool = False) -> list[tuple[NotedPass, NotedPass]]:
        """Return what `once` does several times, behind the warm-ups."""
        runs = [self.once(whole=whole, notes_exchanges=notes_exchanges) for _ in range(WARM_UPS + REPEATS)]
        return runs[WARM_UPS:]

    def once(self, *, whole: bool, notes_exchanges: bool = False) -> tuple[NotedPass, NotedPass]:
        """Return the times of a forward and its backward, which is that of the input alone unless it is `whole`.

        Exchanges of tokens are in them where they are noted, which takes a little time itself.
        """
        log = ExchangeLog(self._now_ns)
        with log if notes_exchanges else nullcontext():
            return self._passes(log, whole=whole)

    def _passes(self, log: ExchangeLog, *, whole: bool) -> tuple[NotedPass, NotedPass]:
        inputs = list(self._inputs)
        if self._takes_gradient:
            inputs[0] = source(self._token, [inputs[0].detach()], [])
        begin_ns = self._now_ns()
        result = first_tensor(self._module(*inputs, **self._named))
        forward = NotedPass(begin_ns=begin_ns, end_ns=self._now_ns(), exchanges=log.taken())
        edge, gradient = get_gradient_edge(result), torch.ones_like(result)
        del result, inputs
        start_ns = self._now_ns()
        if whole:
            torch.autograd.backward([edge], [gradient])
        else:
            torch.autograd.grad([edge], [self._token], [gradient], allow_unused=True)
        return forward, NotedPass(begin_ns=start_ns, end_ns=self._now_ns(), exchanges=log.taken())

    def _now_ns(self) -> int:
        self._wait()
        return time.perf_counter_ns()


def _waiting(device: torch.device) -> Callable[[], None]:
    """Return what waits for the device to finish; the CPU has finished when a call returns."""
    if device.type == "cpu":
        return lambda: None
    return lambda: torch.accelerator.synchronize(device)


def _weight_share(backwards: Sequence[int], input_gradients: Sequence[int]) -> float:
    """Return the share of the weight gradient, from the fastest runs: a disturbance only makes a run longer."""
    return max(0.0, 1 - min(input_gradients) / min(backwards)) if input_gradients else 1.0


def _median(samples: Sequence[int]) -> int:
    return round(statistics.median(samples))


def _spread(samples: Sequence[int]) -> float:
    return (max(samples) - min(samples)) / max(1.0, statistics.median(samples))
