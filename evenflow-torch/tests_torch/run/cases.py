"""Plans that are run on real processes and compared with the unsplit model, all in one group of processes."""

import faulthandler
import os
import socket
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests_torch.run.warm_ranks import warm_context

NUM_RANKS = 3
NUM_STEPS = 2


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
    """Run every case on every rank, one after the other; `cases` are functions of the rank that can be pickled."""
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
    while (missing and any(process.is_alive() for process in processes)) or not answers.empty():
        rank, name, answer = answers.get()
        if name is None:
            missing -= 1
        else:
            found[name][rank] = answer
            if answer.trouble:  # the others wait for this rank
                missing = 0
    for process in processes:
        if any(answer.trouble for case in found.values() for answer in case):
            process.kill()
        process.join()
    return found


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
