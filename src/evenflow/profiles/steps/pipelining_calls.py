"""What Schedule1F1B of torch.distributed.pipelining calls, as ranges that name the actions.

It names no ranges, unlike the other schedules there. A trace that was profiled with stacks (``with_stack=True``) has
its calls in Python instead, and each rank has one stage and calls it for microbatch after microbatch:

    schedules.py(740): step      |------------------------------------------------------------|
    stage.py(857), (935)           forward_one_chunk   forward_one_chunk   backward_one_chunk …
    schedules.py(299)                   _maybe_compute_loss
                                   Forward 0 ……………………… Forward 1             Backward 0
"""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise

from evenflow.profiles.traces.formats.launches import LaunchScope

_CALL = re.compile(
    r"(?:.*/)?torch/distributed/pipelining/"
    r"(?:stage\.py\([0-9]+\): (forward|backward)_one_chunk|schedules\.py\([0-9]+\): (step|_maybe_compute_loss))"
)
_NAMES = {"forward": "Forward", "backward": "Backward"}


def is_call(name: str) -> bool:
    """Return whether a range is one of the calls.

    >>> is_call("torch/distributed/pipelining/stage.py(857): forward_one_chunk"), is_call("train.py(9): step")
    (True, False)
    """
    return _CALL.fullmatch(name) is not None


def named_ranges(calls: Iterable[LaunchScope]) -> list[LaunchScope]:
    """Return the forwards, each with its loss, and the backwards within the steps, numbered in every step.

    Each is named ``Forward 3`` or ``Backward 3`` and keeps its call as the name of its match.
    """
    ordered = sorted(calls, key=lambda call: (call.start_ns, -call.end_ns))
    steps = [call for call in ordered if _kind(call) == "step"]
    ranges: list[LaunchScope] = []
    for step in steps:
        inside = [call for call in ordered if step.start_ns < call.start_ns < step.end_ns and _kind(call) != "step"]
        numbers: Counter[str] = Counter()
        for call, following in pairwise([*inside, step]):
            name = _NAMES.get(_kind(call))
            if name is not None:
                has_loss = name == "Forward" and _kind(following) == "_maybe_compute_loss"
                end = following.end_ns if has_loss else call.end_ns
                ranges.append(replace(call, name=f"{name} {numbers[name]}", end_ns=end))
                numbers[name] += 1
    return ranges


def _kind(call: LaunchScope) -> str:
    match = _CALL.fullmatch(call.name)
    assert match is not None, "only calls are given"
    return match[1] or match[2]
