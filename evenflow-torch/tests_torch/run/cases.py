"""Plans that are run on real processes and compared with the unsplit model, all in one group of processes."""

import faulthandler
import itertools
import os
import socket
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from typing import Any

from tests_torch.run.warm_ranks import warm_context

NUM_RANKS = 3
NUM_STEPS = 2
_AT_A_TIME = 24
"""Cases that the same processes run."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What one rank found in one case."""

    error: float = float("nan")
    """The largest error of a gradient of this rank, relative to the largest expected of that parameter."""
    loss_error: float | None = None
    """Where the last stage is."""
    names: tuple[str, ...] = ()
    """Of its state_dict."""
    found: Any = None
    trouble: str = ""


def run_group(cases: dict[str, Callable[[int], Answer]], num_ranks: int = NUM_RANKS) -> dict[str, list[Answer]]:
    """Run every case on every rank, one after the other; `cases` are functions of the rank that can be pickled.

    Some at a time have processes of their own. Where a signal ends one of these, they are run once more: torch's
    planning of redistributions sometimes corrupts the memory of its process, which no Python code can.
    """
    found: dict[str, list[Answer]] = {}
    names = iter(cases)
    while some := {name: cases[name] for name in itertools.islice(names, _AT_A_TIME)}:
        answers, has_crashed = _answers(some, num_ranks)
        found |= _answers(some, num_ranks)[0] if has_crashed else answers
    return found


def untroubled(cases: dict[str, Callable[[int], Answer]], num_ranks: int = NUM_RANKS) -> dict[str, list[Answer]]:
    """Run every case on every rank, none of which may be in trouble."""
    answers = run_group(cases, num_ranks)
    troubles = {(name, answer.trouble) for name, case in answers.items() for answer in case if answer.trouble}
    assert not troubles, "\n".join(f"{name}: {trouble}" for name, trouble in sorted(troubles))
    return answers


def _answers(cases: dict[str, Callable[[int], Answer]], num_ranks: int) -> tuple[dict[str, list[Answer]], bool]:
    """Return what new processes answer, and whether a signal has ended one."""
    context = warm_context()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    answers = context.SimpleQueue()
    processes = [
        context.Process(target=_rank, args=(rank, num_ranks, port, cases, answers), daemon=True)
        for rank in range(num_ranks)
    ]
    for process in processes:
        process.start()
    found: dict[str, list[Answer]] = {name: [Answer(trouble="did not answer")] * num_ranks for name in cases}
    missing = num_ranks
    while missing or not answers.empty():
        if answers.empty():
            if _crashed(processes) or not any(process.is_alive() for process in processes):
                break
            time.sleep(0.01)
            continue
        rank, name, answer = answers.get()
        if name is None:
            missing -= 1
        else:
            found[name][rank] = answer
            if answer.trouble:  # the others wait for this rank
                missing = 0
    has_crashed = _crashed(processes)
    for process in processes:
        if has_crashed or any(answer.trouble for case in found.values() for answer in case):
            process.kill()
        process.join()
    return found, has_crashed


def _crashed(processes: Sequence[BaseProcess]) -> bool:
    """Whether a signal has ended one of the processes."""
    return any((process.exitcode or 0) < 0 for process in processes)


def _rank(rank: int, num_ranks: int, port: int, cases: dict[str, Callable[[int], Answer]], answers: Any) -> None:
    import torch
    import torch.distributed as dist

    faulthandler.enable()  # a crash in a library says where
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=num_ranks)
    for name, case in cases.items():
        try:
            answers.put((rank, name, case(rank)))
        except BaseException:
            answers.put((rank, name, Answer(trouble=traceback.format_exc())))
            raise
    answers.put((rank, None, None))
    dist.destroy_process_group()
