"""Starts the processes that train with Megatron-LM's pipeline (`train.py`), and returns the losses.

Those of the example in `examples/training` too, whose trainings go on from checkpoints.
"""

import json
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

TRAIN = Path(__file__).resolve().parent / "train.py"
RESUME = TRAIN.with_name("resume.py")
EXAMPLE = TRAIN.parents[2] / "examples" / "training" / "with_megatron.py"
TIMEOUT_S = 300


def losses(
    python: Path,
    folder: Path,
    *,
    flags: Mapping[str, Sequence[str]],
    num_ranks: int,
    num_microbatches: int,
    plan_file: str | None = None,
) -> list[float]:
    """Return the loss of every step of a training with `flags` and a plan file.

    Raises:
        RuntimeError: a process ends with an error.
    """
    folder.mkdir()
    fields = {
        "flags": flags,
        "plan_file": plan_file,
        "microbatches": num_microbatches,
        "meeting": str(folder / "meeting"),
    }
    (folder / "case.json").write_text(json.dumps(fields), "utf-8")
    processes = [
        subprocess.Popen(
            [python.absolute(), TRAIN, folder / "case.json", str(rank), folder / "losses.json"],
            env={**os.environ, "PYTHONPATH": str(TRAIN.parents[2] / "src")},
            stdout=subprocess.DEVNULL,
            stderr=(folder / f"rank{rank}.txt").open("w", encoding="utf-8"),
        )
        for rank in range(num_ranks)
    ]
    try:
        codes = [process.wait(TIMEOUT_S) for process in processes]
    finally:
        for process in processes:
            process.kill()
    if any(codes):
        rank = next(rank for rank, code in enumerate(codes) if code)
        raise RuntimeError(f"rank {rank}: {(folder / f'rank{rank}.txt').read_text('utf-8')[-2000:]}")
    found: list[float] = json.loads((folder / "losses.json").read_text("utf-8"))
    return found


def example_losses(
    python: Path, folder: Path, *, flags: Mapping[str, Sequence[str]], num_ranks: int, plan_file: str, steps: int
) -> list[str]:
    """Run the example in a folder, whose checkpoint it goes on from; return the lines that it prints for its steps.

    Raises:
        RuntimeError: it ends with an error, or not in time.
    """
    folder.mkdir(exist_ok=True)
    starts = (python.absolute(), "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={num_ranks}")
    texts = [text for flag, values in flags.items() for text in (flag, *values)]
    environment = {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(TRAIN.parents[2] / "src")}
    process = subprocess.Popen(
        [*starts, RESUME, EXAMPLE, plan_file, str(steps), *texts],
        cwd=folder, env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # the processes that it has started, too
        raise RuntimeError(f"the example has not ended after {TIMEOUT_S} seconds") from None
    if process.returncode:
        raise RuntimeError(f"the example: {err[-4000:]}")
    return [line for line in out.splitlines() if line.startswith("step")]
