"""Writes the orders that PaddlePaddle would run; runs in its own environment and knows nothing of evenflow.

    python job_lists.py FILE

writes the job lists of the package's own schedulers as JSON: version, and a list of cases, each with its sizes and for
every rank a list of ``[job type, microbatch]``, or with the error that the package raises.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paddle
from paddle.distributed.passes import new_pass

RANKS, CHUNKS, MICROBATCHES = range(2, 9), range(1, 5), range(1, 21)


def sizes() -> Iterator[tuple[str, int, int, int]]:
    """Yield scheduler, ranks, chunks and microbatches of every case; only VPP has several chunks."""
    for scheduler in ("VPP", "1F1B", "FThenB"):
        for num_ranks in RANKS:
            for num_chunks in CHUNKS if scheduler == "VPP" else (1,):
                for num_microbatches in MICROBATCHES:
                    yield scheduler, num_ranks, num_chunks, num_microbatches


def job_list(scheduler: str, rank: int, num_ranks: int, num_chunks: int, num_microbatches: int) -> list[list[Any]]:
    """Return the jobs that one rank runs, in order."""
    attributes = {
        "num_micro_batches": num_microbatches,
        "pp_stage": rank,
        "pp_degree": num_ranks,
        "vpp_degree": num_chunks,
    }
    jobs = new_pass(f"pipeline_scheduler_{scheduler}", attributes)._create_job_list()
    return [[job.type(), job.micro_batch_id()] for job in jobs]


def case(scheduler: str, num_ranks: int, num_chunks: int, num_microbatches: int) -> dict[str, Any]:
    """Return the job lists of all ranks, or the error."""
    found: dict[str, Any] = {
        "scheduler": scheduler,
        "ranks": num_ranks,
        "chunks": num_chunks,
        "microbatches": num_microbatches,
    }
    try:
        found["jobs"] = [
            job_list(scheduler, rank, num_ranks, num_chunks, num_microbatches) for rank in range(num_ranks)
        ]
    except Exception as error:  # noqa: BLE001  # whatever it raises is its answer
        found["error"] = f"{type(error).__name__}: {error}"
    return found


def main() -> None:
    """Write all cases."""
    cases = [case(*each) for each in sizes()]
    text = json.dumps({"version": paddle.__version__, "cases": cases})
    Path(sys.argv[1]).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
