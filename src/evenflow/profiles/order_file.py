"""Orders of work that another program wrote: torch.distributed.pipelining CSV, Paddle job lists as JSON.

CSV: a line a rank, cells like ``2F0``. Empty cells are idle; communication (SEND_F, RECV_F, SEND_B, RECV_B, UNSHARD,
RESHARD, REDUCE_GRAD) follows from the computation and is skipped; ``(0F7;7B3)OVERLAP_F_B`` is a pair.

JSON: a list a rank, of jobs ``{"type": "forward0", "micro_batch_id": 0}``. Types are forward, backward, backward_b
(gradient of the input) and backward_w (of the weights), followed by the chunk where there are several; messages and the
optimizer are skipped.
"""

import re

from evenflow.errors import InputError
from evenflow.fields import as_fields, load_json
from evenflow.language import _
from evenflow.ranges import Range
from evenflow.schedule import Schedule, parse_schedule

_COMMUNICATION = re.compile(r"[0-9]+(SEND_F|RECV_F|SEND_B|RECV_B|UNSHARD|RESHARD|REDUCE_GRAD)[0-9]*")
_JOB = re.compile(r"(forward|backward|backward_b|backward_w)([0-9]{0,6})(?:_reduce)?")
_OTHER_JOB = re.compile(r"optimizer|(send|recv)_(forward|backward)[0-9]*")
_OPS = {"forward": "F", "backward": "B", "backward_b": "I", "backward_w": "W"}
_LARGEST = 999_999
"""A stage or microbatch above this is a mistake."""


def parse_order_file(text: str, *, name: str, place: str) -> Schedule:
    """Return the order in `text`, in either form, without validating it.

    Raises:
        InputError: a cell or job that is no action, with its place.
    """
    if text.lstrip().startswith(("[", "{")):
        return parse_schedule(_from_jobs(load_json(text, file=place), place), name=name, place=place)
    lines = [
        ",".join(_computation(cell.strip(), f"{place}, line {number}") for cell in line.split(","))
        for number, line in enumerate(text.rstrip().splitlines(), start=1)
    ]
    return parse_schedule("\n".join(lines), name=name, place=place)


def _computation(cell: str, place: str) -> str:
    """Return the action in a cell of the CSV, without its communication."""
    if any(len(digits) > len(str(_LARGEST)) for digits in re.findall(r"\d+", cell)):
        raise InputError(
            value=cell[:80], rule=_("must have stages and microbatches up to {largest}", largest=_LARGEST), place=place
        )
    if _COMMUNICATION.fullmatch(cell):
        return ""
    return cell


def _from_jobs(value: object, place: str) -> str:
    """Return Paddle's job lists as the text form of a schedule."""
    if not isinstance(value, list) or not all(isinstance(row, list) for row in value):
        raise InputError(
            value=type(value).__name__, rule=_("must be a list with a list of jobs for each rank"), place=place
        )
    lines = []
    for rank, row in enumerate(value):
        jobs = (_token(job, rank, len(value), f"[{rank}][{index}]", place) for index, job in enumerate(row))
        lines.append(",".join(token for token in jobs if token))
    return "\n".join(lines)


def _token(value: object, rank: int, num_ranks: int, path: str, file: str) -> str:
    """Return one job as an action; empty for a message or the optimizer."""
    fields = as_fields(value, file=file, path=path)
    kind = fields.text("type")
    if _OTHER_JOB.fullmatch(kind):
        return ""
    match = _JOB.fullmatch(kind)
    if match is None:
        raise fields.error(
            "type", _("must be one of {names}, with the chunk behind it: forward0", names=", ".join(_OPS))
        )
    microbatch = fields.integer("micro_batch_id", Range(least=0, most=_LARGEST))
    stage = int(match[2] or 0) * num_ranks + rank  # chunks are dealt round
    return f"{stage}{_OPS[match[1]]}{microbatch}"
