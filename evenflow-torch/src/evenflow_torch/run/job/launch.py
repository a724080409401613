"""All ranks on one machine: a process each, watched until the last has ended. Imports no torch."""

import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from evenflow.errors import RunError
from evenflow.interruption import was_interrupted
from evenflow.language import _
from evenflow_torch.run.job.rank_environment import RankEnvironment
from evenflow_torch.run.job.run_folder import compiler_variables, run_folder
from evenflow_torch.run.values.aa_report import Mismatch
from evenflow_torch.run.values.run_job import RANK_TIMEOUT_SECONDS, RunJob
from evenflow_torch.run.values.run_result import Failure, RunResult, StepReport
from evenflow_torch.run.watch.process_state import processor_ticks

GRACE_SECONDS = 1.0
"""Time that the others may go on after a rank has failed, so that an earlier failure is heard of."""
KILL_SECONDS = 5.0
"""Time that a process may take to end when told to; with the grace, all have ended 6 s after the first failure."""
MOST_RANK_TIMEOUT_SECONDS = 1e6
_SILENT_SECONDS = 2.0
"""Silence from which on the processor time of a rank is a sign of life: a library may keep the interpreter's lock."""

_CHILD = "evenflow_torch.run.job.child"
_REPORTS: Mapping[str, type[StepReport] | type[Mismatch]] = {"step": StepReport, "mismatch": Mismatch}


@dataclass(slots=True, kw_only=True)
class _Rank:
    rank: int
    process: subprocess.Popen[bytes]
    log: Path
    heard_at: float
    """When it said something last, was seen to compute, or was started."""
    ticks: int = 0
    """Processor time that it had used then."""
    unread: bytes = b""
    failure: Failure | None = None


def launch(
    job: RunJob,
    report: Callable[[StepReport | Mismatch], None],
    *,
    rank_timeout_s: float = RANK_TIMEOUT_SECONDS,
) -> RunResult:
    """Run `job` with one process per rank on this machine.

    A rank gives a sign of life every second, whatever it computes; one that gives none for `rank_timeout_s` seconds,
    and uses no processor time either, has failed.

    When a rank fails the others are ended within `GRACE_SECONDS` and `KILL_SECONDS`; whatever ends this
    function, no process and no file is left.

    Raises:
        RunError: a rank failed; it is named with its message.
    """
    with run_folder() as folder:
        file = folder / "job.json"
        file.write_bytes(msgspec.json.encode(job))
        ranks: list[_Rank] = []
        try:
            port = _free_port()
            for rank in range(job.num_processes):
                ranks.append(_start(file, rank, job.num_processes, port))  # noqa: PERF401  all started ones are ended
            return _watch(ranks, report, rank_timeout_s)
        finally:
            _end(ranks)


def _start(job: Path, rank: int, num_ranks: int, port: int) -> _Rank:
    log = job.with_name(f"rank-{rank}.log")
    with log.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "-m", _CHILD, str(job)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            env={**_environment(rank, num_ranks, port), **compiler_variables(job.parent)},
            start_new_session=True,  # a Ctrl-C reaches this process, which ends the others
        )
    return _Rank(rank=rank, process=process, log=log, heard_at=time.monotonic())


def _environment(rank: int, num_ranks: int, port: int) -> Mapping[str, str]:
    own = RankEnvironment(
        rank=rank, num_processes=num_ranks, local_rank=rank, num_local=num_ranks, address="127.0.0.1", port=port
    )
    threads = {"OMP_NUM_THREADS": str(max(1, (os.cpu_count() or 1) // num_ranks))}
    return {**threads, **os.environ, **own.variables()}


def _watch(ranks: list[_Rank], report: Callable[[StepReport | Mismatch], None], rank_timeout_s: float) -> RunResult:
    """Pass on the answers of the ranks until all have ended well, or one has failed."""
    result: RunResult | None = None
    failed_at: float | None = None
    with selectors.DefaultSelector() as selector:
        for rank in ranks:
            assert rank.process.stdout is not None
            selector.register(rank.process.stdout, selectors.EVENT_READ, rank)
        while selector.get_map():
            if was_interrupted():
                raise KeyboardInterrupt
            for key, _ in selector.select(timeout=0.1):
                rank = key.data
                data = os.read(key.fd, 2**16)
                rank.heard_at, rank.ticks = time.monotonic(), processor_ticks(rank.process.pid)
                if not data:
                    selector.unregister(key.fileobj)
                    rank.process.wait()
                for kind, value in _answers(rank, data):
                    if kind in _REPORTS:
                        report(msgspec.convert(value, _REPORTS[kind], strict=False))
                    elif kind == "result":
                        result = msgspec.convert(value, RunResult, strict=False)
                    elif kind == "failure":
                        rank.failure = msgspec.convert(value, Failure)
            if failed_at is None and any(rank.failure or rank.process.poll() for rank in ranks):
                failed_at = time.monotonic()
            if failed_at is not None and time.monotonic() > failed_at + GRACE_SECONDS:
                break
            if failed_at is None:
                _check_alive(ranks, rank_timeout_s)
    if failed_at is not None or result is None:
        raise _error(ranks)
    return result


def _check_alive(ranks: list[_Rank], rank_timeout_s: float) -> None:
    """Raise RunError where a rank that has not ended has been silent for too long."""
    for rank in ranks:
        silent_s = time.monotonic() - rank.heard_at
        if silent_s > _SILENT_SECONDS and (ticks := processor_ticks(rank.process.pid)) != rank.ticks:
            rank.heard_at, rank.ticks = time.monotonic(), ticks
        elif silent_s > rank_timeout_s and rank.process.poll() is None:
            raise RunError(
                _(
                    "rank {rank} (process {pid}) gave no sign of life for {seconds:g} seconds: it was stopped, or the "
                    "machine is too busy to run it; all ranks have been ended; --rank-timeout sets how long to wait",
                    rank=rank.rank,
                    pid=rank.process.pid,
                    seconds=rank_timeout_s,
                )
            )


def _answers(rank: _Rank, data: bytes) -> list[tuple[str, object]]:
    *lines, rank.unread = (rank.unread + data).split(b"\n")
    return [item for line in lines if line for item in json.loads(line).items()]


def _error(ranks: list[_Rank]) -> RunError:
    """Return the first failure: a rank that died without a word is the cause of what others say; else the earliest."""
    silent = [rank for rank in ranks if rank.process.poll() and rank.failure is None]
    spoken = sorted((rank.failure.time_ns, place) for place, rank in enumerate(ranks) if rank.failure)
    first = (silent or [ranks[place] for _, place in spoken] or ranks)[0]
    if first.failure is not None:
        return RunError(_("rank {rank} failed: {message}", rank=first.rank, message=first.failure.message))
    status = first.process.returncode
    if status is not None and status < 0:
        name = signal.Signals(-status).name
        how = _("rank {rank} was ended by signal {signal}", rank=first.rank, signal=name)
    else:
        how = _("rank {rank} ended with status {status}", rank=first.rank, status=status)
    said = first.log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-10:]
    return RunError("\n".join([how, *said]))


def _end(ranks: list[_Rank]) -> None:
    """End every process that is still there: ask it first, then kill it."""
    alive = [rank.process for rank in ranks if rank.process.poll() is None]
    for process in alive:
        process.terminate()
        process.send_signal(signal.SIGCONT)  # one that was stopped would not hear the other
    deadline = time.monotonic() + KILL_SECONDS
    for process in alive:
        try:
            process.wait(timeout=max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    for rank in ranks:
        for pipe in (rank.process.stdin, rank.process.stdout):
            if pipe is not None:
                pipe.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
