import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.schedule import Action, Op, Schedule, format_schedule, parse_schedule
from tests.paths import GOLDEN
from tests.strategies import WITHOUT_PAIRS, FamilySizes, schedules, sizes


@given(st.integers(0, 300), st.sampled_from(Op), st.integers(0, 2000))
def test_an_action_reads_back(stage: int, op: Op, microbatch: int):
    action = Action(stage, op, microbatch)
    assert Action.parse(f" {action} ") == action


NO_ACTION = r"^row 3 must be a stage, an operation \(F, B, I, W\) and a microbatch, like 2F0"


@pytest.mark.parametrize("token", ["", "F", "2F", "F0", "2X0", "2f0", "2F0F1", "-1F0", "2FF0", "2.5F0"])
def test_what_is_no_action_is_refused_with_its_place(token: str):
    with pytest.raises(InputError, match=NO_ACTION):
        Action.parse(token, place="row 3")


@given(sizes())
def test_a_schedule_reads_back(size: FamilySizes):
    schedule = size.schedule()
    text = format_schedule(schedule)
    assert parse_schedule(text, name=schedule.name, sequence_splits=size.sequence_splits) == schedule
    assert text.count("\n") == size.num_ranks


@given(schedules(), st.integers(0, 3))
def test_idle_slots_are_skipped(schedule: Schedule, idle: int):
    text = format_schedule(schedule).replace(",", "," * (1 + idle) + " ")
    read = parse_schedule(text, name=schedule.name, sequence_splits=schedule.sequence_splits)
    assert read == schedule
    assert hash(read) == hash(schedule)


@given(sizes(families=WITHOUT_PAIRS))
def test_a_schedule_in_the_names_of_older_files_reads_back(size: FamilySizes):
    schedule = size.schedule()
    names = {Op.F: "F", Op.B: "BW", Op.I: "B", Op.W: "W"}
    rows = (schedule.order(rank) for rank in range(size.num_ranks))
    text = "\n".join(",".join(f"{one.stage}{names[one.op]}{one.microbatch}" for one in row) for row in rows)
    assert parse_schedule(text, name=schedule.name, sequence_splits=size.sequence_splits) == schedule


def test_names_of_older_files():
    """They call the input gradient B and the full backward BW."""
    new = "0F0,0F1,0I0,0W0,0B1\n1F0,1I0,1F1,1B1,1W0\n"
    assert parse_schedule("0F0,0F1,0B0,0W0,0BW1\n1F0,1B0,1F1,1BW1,1W0\n", name="mine") == parse_schedule(
        new, name="mine"
    )
    assert format_schedule(parse_schedule(new, name="mine")) == new
    assert format_schedule(parse_schedule("0F0,0B0,0W0\n", name="mine")) == "0F0,0I0,0W0\n"  # no BW, but W without I
    assert format_schedule(parse_schedule("0F0,0BW0\n", name="mine")) == "0F0,0B0\n"
    with pytest.raises(InputError, match=r"line 1.*operation \(F, B, W, BW\) .*got '0I0'"):
        parse_schedule("0F0,0I0,0W0,0F1,0BW1\n", name="mine")


def test_the_placement_is_read_from_the_ranks():
    assert parse_schedule("0F0,3F0\n1F0,2F0\n", name="v").stage_ranks == (0, 1, 1, 0)


def test_the_line_of_a_wrong_token_is_named():
    with pytest.raises(InputError, match=r"order\.csv, line 2.*got '1G0'"):
        parse_schedule("0F0,0B0\n1F0,1G0\n", name="mine", place="order.csv")


@pytest.mark.parametrize("text", ["", "\n", ",,\n ,"])
def test_nothing_is_no_schedule(text: str):
    with pytest.raises(InputError, match="at least one action"):
        parse_schedule(text, name="mine")


@pytest.mark.parametrize(
    ("file", "family", "num_ranks", "num_chunks", "num_microbatches", "sequence_splits"),
    [
        ("1f1b_4x8", "1f1b", 4, 1, 8, 1),
        ("1f1b_2x2_2_splits", "1f1b", 2, 1, 2, 2),
        ("interleaved_2x2x2", "interleaved", 2, 2, 2, 1),
        ("interleaved_4x2x5", "interleaved", 4, 2, 5, 1),
        ("interleaved_less_memory_4x2x4", "interleaved-less-memory", 4, 2, 4, 1),
        ("zb_h1_2x3", "zb-h1", 2, 1, 3, 1),
        ("f_then_b_2x2x2", "f-then-b", 2, 2, 2, 1),
    ],
)
def test_orders_that_were_written_by_hand(
    file: str, family: str, num_ranks: int, num_chunks: int, num_microbatches: int, sequence_splits: int
):
    size = FamilySizes(
        family=family,
        num_ranks=num_ranks,
        num_chunks=num_chunks,
        num_microbatches=num_microbatches,
        sequence_splits=sequence_splits,
    )
    assert format_schedule(size.schedule()) == (GOLDEN / f"{file}.csv").read_text()
