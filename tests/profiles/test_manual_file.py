from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.export.mindformers import mindformers_lists
from evenflow.model import Network, Plan, cells
from evenflow.profiles.manual_file import ManualEntry, read_manual_file
from tests.networks import equal_network

GUIDE_TEXT = """# simulate configs
manual1:
  offset:  [[-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 1, 1], [1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, -1]]
  recompute: false
  select_recompute: [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2, 2], [1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 2, 2, 3, 3], [3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 0, 1, 0]]
  select_comm_recompute: [[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 2, 2, 2], [1, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 2, 2, 3, 3], [3, 3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 0, 1, 0]]
  interleave_num: 3
  show: True
  file_name: "manual1.svg"
"""  # noqa: E501


def every_kind(num_layers: int) -> Network:
    return equal_network(num_layers, "select", "comm", "both", "full")


def schedule_of_chunks(num_chunks: int) -> str:
    return "1f1b" if num_chunks == 1 else "interleaved"


def read(path: Path, text: str, model: Network, *, num_ranks: int, **sizes: int) -> tuple[ManualEntry, ...]:
    path = path / "manual.yaml"
    path.write_text(text, encoding="utf-8")
    return read_manual_file(
        path, network=model, num_ranks=num_ranks, num_microbatches=16, schedule_of_chunks=schedule_of_chunks, **sizes
    )


def test_the_example_of_the_guide(tmp_path: Path):
    (entry,) = read(tmp_path, GUIDE_TEXT, every_kind(96), num_ranks=16)
    assert (entry.name, entry.file_name, entry.show) == ("manual1", "manual1.svg", True)
    plan = entry.plan
    assert (plan.schedule, plan.num_microbatches, plan.num_chunks, plan.num_layers) == ("interleaved", 16, 3, 96)
    assert plan.layers[0] == (1,) * 12 + (2,) * 4
    assert plan.layers[2] == (3,) * 9 + (2,) * 6 + (1,)
    # Chunk 0: rank 11 has select without comm, rank 12 one layer of each.
    assert plan.recompute["select"][0] == (0,) * 11 + (1, 1, 0, 0, 0)
    assert plan.recompute["both"][0] == (1,) * 11 + (0, 1, 2, 2, 2)
    assert plan.recompute["both"][2] == (3,) * 9 + (2, 2, 2, 2, 0, 1, 0)
    assert set(plan.recompute) == {"select", "both"}


def test_the_kinds_of_a_cell_follow_from_the_cumulative_lists(tmp_path: Path):
    text = """
    a: {offset: 0, recompute: [1, 0, 2, 3], select_recompute: [3, 2, 1, 3], select_comm_recompute: [2, 5, 0, 4]}
    """
    (entry,) = read(tmp_path, text, every_kind(20), num_ranks=4)
    assert entry.plan.recompute == {
        "full": ((1, 0, 2, 3),),
        "both": ((1, 2, 0, 0),),
        "select": ((1, 0, 0, 0),),
        "comm": ((0, 3, 0, 1),),
    }
    assert (entry.file_name, entry.show) == (None, False)


def test_true_is_every_layer_and_chunks_have_a_default(tmp_path: Path):
    text = (
        "all: {offset: [[0, 1], [1, 0]], recompute: true, select_recompute: true}\nnone: {offset: [[1, 1], [0, 0]]}\n"
    )
    every, nothing = read(tmp_path, text, every_kind(10), num_ranks=2, num_chunks=2)
    assert every.plan.layers == ((2, 3), (3, 2))
    assert every.plan.recompute == {"full": every.plan.layers}
    assert nothing.plan.recompute == {}


@st.composite
def expressible_plans(draw: st.DrawFn) -> Plan:
    """Plans whose cells hold layers under select alone or under comm alone, never both."""
    num_chunks, num_ranks = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    shape = [(chunk, rank) for chunk in range(num_chunks) for rank in range(num_ranks)]
    counts = {}
    for cell in shape:
        single = draw(st.sampled_from(["select", "comm"]))
        counts[cell] = {kind: draw(st.integers(0, 3)) for kind in ("full", "both", single)}

    def table(kind: str) -> tuple[tuple[int, ...], ...]:
        return cells([[counts[c, r].get(kind, 0) for r in range(num_ranks)] for c in range(num_chunks)])

    layers = cells(
        [[sum(counts[c, r].values()) + draw(st.integers(0, 2)) for r in range(num_ranks)] for c in range(num_chunks)]
    )
    tables = {kind: table(kind) for kind in ("full", "both", "select", "comm")}
    return Plan(
        schedule=schedule_of_chunks(num_chunks),
        num_microbatches=16,
        layers=layers,
        recompute={kind: value for kind, value in tables.items() if any(map(any, value))},
    )


@given(expressible_plans().filter(lambda plan: plan.num_layers > 0))
def test_the_lines_written_for_mindformers_read_back_as_the_same_plan(
    tmp_path_factory: pytest.TempPathFactory, plan: Plan
):
    lists = {name: [list(row) for row in table] for name, table in mindformers_lists(plan).items()}
    text = "again:\n" + "".join(f"  {name}: {table}\n" for name, table in lists.items())
    text += f"  interleave_num: {plan.num_chunks}\n"
    folder = tmp_path_factory.getbasetemp()
    (entry,) = read(folder, text, every_kind(plan.num_layers), num_ranks=plan.num_ranks)
    assert entry.plan == plan


@pytest.mark.parametrize(
    ("fields", "place", "says"),
    [
        ("offset: [0, 1, 0]", "offset", "(here the rows have [3])"),
        ("offset: [[0, 0], [0, 0]]", "offset", "each of the 1 chunks"),
        ("offset: [0, 1]", "offset", "must sum to 0, because 8 layers on 2 ranks x 1 chunks are 4 in each cell"),
        ("offset: [-5, 5]", "offset, chunk 0, rank 0", "must be -4 or more"),
        ("offset: 1", "offset", "0, a list or a list of lists"),
        ("offset: [0, x]", "offset", "0, a list or a list of lists"),
        ("recompute: true", "", "must have the field 'offset'"),
        ("{offset: 0, recompute: [5, 0]}", "recompute, chunk 0, rank 0", "from 0 to the 4 layers of its cell, got 5"),
        ("{offset: 0, recompute: [0, -1]}", "recompute, chunk 0, rank 1", "from 0 to the 4 layers"),
        ("{offset: 0, recompute: yes please}", "recompute", "true, false, a list or"),
        ("{offset: 0, recompute: [1]}", "recompute", "a number for each of the 2 ranks"),
        ("{offset: 0, select_comm_recompute: [0, 1]}", "select_comm_recompute, chunk 0, rank 1", "memory of 'comm'"),
        ("{offset: 0, interleave_num: 0}", "interleave_num", "from 1"),
        ("{offset: 0, interleave_num: 3}", "offset", "must sum to 2"),
        ("{offset: 0, show: 1}", "show", "true or false"),
        ("{offset: 0, file_name: 3}", "file_name", "a text"),
        ("{offset: 0, recomputation: 3}", "recomputation", "did you mean 'recompute'?"),
    ],
)
def test_a_bad_field_is_one_clear_message_with_its_line(tmp_path: Path, fields: str, place: str, says: str):
    with pytest.raises(InputError) as caught:
        read(tmp_path, f"# mine\nm:\n  {fields}\n", equal_network(8, "full"), num_ranks=2)
    file = str(tmp_path / "manual.yaml")
    assert caught.value.place == (f"{file}, line 3: m.{place}" if place else f"{file}: m")
    assert says in str(caught.value)


def test_full_recompute_of_a_split_sequence_is_refused_with_the_reason(tmp_path: Path):
    with pytest.raises(InputError, match="keys and values"):
        read(tmp_path, "m: {offset: 0, recompute: true}", every_kind(8), num_ranks=2, sequence_splits=2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("m: [1,\nn: 2", "not YAML at line 2, column 5"),
        ("m: {offset: 0, offset: 1}", "line 1"),
        ("", "named fields"),
        ("m: 3", "m must be an object of named fields, got 'int'"),
        ("- 1", "named fields"),
        ("m: &m\n  offset: *m\n", "offset"),
        ("m: !!python/object/apply:os.system [ls]", "not plain YAML"),
    ],
)
def test_a_bad_file_is_one_clear_message(tmp_path: Path, text: str, says: str):
    with pytest.raises(InputError) as caught:
        read(tmp_path, text, every_kind(8), num_ranks=2)
    assert caught.value.place.startswith(str(tmp_path))
    assert says in str(caught.value)
