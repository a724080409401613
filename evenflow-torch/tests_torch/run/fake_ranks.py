"""Ranks that need no torch: each does what a file beside the job says for its rank."""

import json
import os
import sys
import threading
import time
from pathlib import Path

from evenflow_torch.run.job import child

RESULT = {
    "model": "none",
    "num_parameters": 0,
    "losses": [1.0],
    "message_ns": 0,
    "overhead": {"action_ns": 0, "send_ns": 0, "receive_ns": 0},
    "ranks": [],
    "verification": None,
}


def answer(kind: str, value: object) -> None:
    os.write(1, json.dumps({kind: value}).encode() + b"\n")  # at once, whatever thread says it


def main() -> None:
    threading.Thread(target=child._end_with_parent, args=[Path(sys.argv[1]).parent], daemon=True).start()
    threading.Thread(target=child._show_life, args=[answer], daemon=True).start()
    rank = os.environ["RANK"]
    behaviour = json.loads(Path(os.environ["FAKE_RANKS"]).read_text(encoding="utf-8"))[int(rank)]
    if "pids" in behaviour:
        with Path(behaviour["pids"]).open("a", encoding="utf-8") as pids:
            pids.write(f"{os.getpid()}\n")
    time.sleep(behaviour.get("after", 0))
    for value in behaviour.get("answers", ()):
        for kind, content in value.items():
            answer(kind, content)
    if "fail" in behaviour:
        answer("failure", {"time_ns": time.time_ns(), "message": behaviour["fail"]})
        os._exit(1)
    if "say" in behaviour:
        print(behaviour["say"], file=sys.stderr, flush=True)
    if "signal" in behaviour:
        os.kill(os.getpid(), behaviour["signal"])
    if "status" in behaviour:
        os._exit(behaviour["status"])


if __name__ == "__main__":
    main()
