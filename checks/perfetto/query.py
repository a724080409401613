"""What Perfetto makes of the traces in a folder, as JSON. Run by `check.py` in an environment of its own."""

import json
import sys
from pathlib import Path

from processor import Processor, viewer_folder

SLICES = """
    SELECT slice.id, process.pid, process.name AS process, thread.name AS thread, slice.ts, slice.dur, slice.name,
        slice.category, slice.depth, extract_arg(slice.arg_set_id, 'args.stage') AS stage,
        extract_arg(slice.arg_set_id, 'args.microbatch') AS microbatch,
        extract_arg(slice.arg_set_id, 'args.part') AS part
    FROM slice JOIN thread_track ON slice.track_id = thread_track.id JOIN thread USING (utid) JOIN process USING (upid)
    ORDER BY slice.id
"""
FLOWS = "SELECT slice_out, slice_in FROM flow ORDER BY id"
COUNTERS = """
    SELECT process.pid, process_counter_track.name, counter.ts, counter.value
    FROM counter JOIN process_counter_track ON counter.track_id = process_counter_track.id JOIN process USING (upid)
    ORDER BY counter.id
"""
COMPLAINTS = "SELECT name, value FROM stats WHERE severity != 'info' AND value > 0"


def answer(path: Path) -> dict[str, object]:
    """Return slices, flows, counters and whatever Perfetto finds wrong with a trace."""
    processor = Processor(path.read_bytes())
    try:
        return {
            "slices": [list(row.__dict__.values()) for row in processor.rows(SLICES)],
            "flows": [[row.slice_out, row.slice_in] for row in processor.rows(FLOWS)],
            "counters": [[row.pid, row.name, row.ts, row.value] for row in processor.rows(COUNTERS)],
            "complaints": {row.name: row.value for row in processor.rows(COMPLAINTS)},
        }
    finally:
        processor.close()


if __name__ == "__main__":
    answers = {path.name: answer(path) for path in sorted(Path(sys.argv[1]).iterdir())}
    json.dump({"viewer": viewer_folder().name, **answers}, sys.stdout)
