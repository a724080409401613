import json

import pytest
from hypothesis import assume, given

from evenflow.errors import InputError
from evenflow.profiles.order_file import parse_order_file
from evenflow.schedule import FAMILIES, Schedule, format_schedule, parse_schedule
from tests.strategies import WITHOUT_PAIRS, FamilySizes, schedules, sizes

JOBS = {"F": "forward", "B": "backward", "I": "backward_b", "W": "backward_w"}


def paddle_jobs(schedule: Schedule) -> list[list[dict[str, object]]]:
    """As ``[[{"type": job.type(), "micro_batch_id": job.micro_batch_id()} for job in jobs] for jobs in ...]``."""
    return [
        [
            {
                "type": JOBS[action.op.name]
                + (str(action.stage // schedule.num_ranks) if schedule.num_chunks > 1 else ""),
                "micro_batch_id": action.microbatch,
            }
            for action in schedule.order(rank)
        ]
        + [{"type": "optimizer"}]
        for rank in range(schedule.num_ranks)
    ]


def unsplit(schedule: Schedule) -> Schedule:
    """What the text says: parts of a sequence are microbatches."""
    return parse_schedule(format_schedule(schedule), name="mine")


@given(schedules())
def test_csv_reads_back(schedule: Schedule):
    assert parse_order_file(format_schedule(schedule), name="mine", place="a.csv") == unsplit(schedule)


@given(sizes(families=WITHOUT_PAIRS))
def test_job_lists_read_back(size: FamilySizes):
    assume(not FAMILIES[size.family].is_v_shaped)  # the chunks of job lists go round the ranks
    schedule = size.schedule()
    text = json.dumps(paddle_jobs(schedule))
    assert parse_order_file(text, name="mine", place="a.json") == unsplit(schedule)


def test_communication_is_skipped():
    text = "0UNSHARD,0F0,0SEND_F0,,0RECV_B0,0B0,0REDUCE_GRAD\n1RECV_F0, 1F0 ,1B0,1SEND_B0,1RESHARD\n\n"
    assert format_schedule(parse_order_file(text, name="mine", place="a.csv")) == "0F0,0B0\n1F0,1B0\n"


def test_overlapped_actions_are_pairs():
    text = "0F0,(0F1;0B0)OVERLAP_F_B,0B1\n"
    assert format_schedule(parse_order_file(text, name="mine", place="a.csv")) == text


def test_messages_among_jobs_are_skipped():
    jobs = [[{"type": "recv_forward"}, {"type": "forward", "micro_batch_id": 0}, {"type": "send_backward0"}]]
    assert format_schedule(parse_order_file(json.dumps(jobs), name="mine", place="a.json")) == "0F0\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0F0\n1F0,1Q0", r"^a, line 2 must be a stage, .*got '1Q0'"),
        ("0F0,0SEND_X0", r"^a, line 1 must be a stage, .*got '0SEND_X0'"),
        ("0F0,1234567F0", r"^a, line 1 must have stages and microbatches up to 999999"),
        ("", "^a must have at least one action"),
        ("[[]]", "^a must have at least one action"),
        ("[[}", "^cannot read a: not JSON at line 1, column 3"),
        ('{"jobs": []}', "^a must be a list with a list of jobs for each rank"),
        ("[1]", "^a must be a list with a list of jobs for each rank"),
        ("[[1]]", r"^a: \[0\]\[0\] must be an object of named fields"),
        ('[[], [{"micro_batch_id": 0}]]', r"^a: \[1\]\[0\] must have the field 'type'"),
        ('[[{"type": "forward"}]]', r"^a: \[0\]\[0\] must have the field 'micro_batch_id'"),
        ('[[{"type": "fwd", "micro_batch_id": 0}]]', r"^a: \[0\]\[0\].type must be one of forward, .*: forward0"),
        ('[[{"type": "forward", "micro_batch_id": true}]]', r"^a: \[0\]\[0\].micro_batch_id must be an integer from 0"),
        ('[[{"type": "forward", "micro_batch_id": -1}]]', r"^a: \[0\]\[0\].micro_batch_id must be an integer from 0"),
        ('[[{"type": "forward", "micro_batch_id": 1e9}]]', r"^a: \[0\]\[0\].micro_batch_id must be an integer from 0"),
    ],
)
def test_what_is_no_order_is_refused_with_its_place(text: str, message: str):
    with pytest.raises(InputError, match=message):
        parse_order_file(text, name="mine", place="a")
