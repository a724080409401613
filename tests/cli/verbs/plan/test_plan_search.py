"""``evenflow plan --schedule search`` and orders made for the plan, with the real solver on a tiny model."""

import json

import pytest

from evenflow.profiles.order_file import parse_order_file
from evenflow.profiles.plan_file import read_plan_file
from evenflow.schedule import Op, check_complete, schedule_of

SIZES = ("--ranks", 2, "--microbatches", 4, "--time-limit", 2)


def test_writes_a_plan_with_its_order_and_both_bounds(folder, evenflow):
    result = evenflow(
        "plan", "tiny.json", *SIZES, "--schedule", "search", "--split-backward", "--json", "plan.json",
        "--order", "order.csv", "--svg", "plan.svg",
    )  # fmt: skip
    assert result.exit_code == 0
    assert "4 layers on 2 ranks x 1 chunk, 4 microbatches" in result.stdout
    assert "bound for any order of these cells" in result.stdout
    assert "bound for any order of any cells" in result.stdout
    fields = json.loads((folder / "plan.json").read_text())
    # Two of four equal layers a rank: 6 ms a microbatch, and rank 1 waits 2 ms for the first; its weight gradients
    # fill the end. Work of 24 ms and that wait are the least.
    assert fields["makespan_ms"] == fields["lower_bound_same_cells_ms"] == 26.0
    assert fields["lower_bound_ms"] == fields["lower_bound_any_order_ms"] <= 26.0
    assert fields["best_family"]["makespan_ms"] >= 26.0
    assert fields["best_family"]["lower_bound_ms"] <= fields["best_family"]["makespan_ms"]
    plan = read_plan_file(folder / "plan.json")
    order = schedule_of(plan)
    check_complete(order)
    assert Op.W in order.used_ops
    assert parse_order_file((folder / "order.csv").read_text(), name=order.name, place="order.csv") == order
    assert (folder / "plan.svg").read_text().startswith("<svg")


def test_a_searched_plan_is_simulated_as_it_is(folder, evenflow):
    evenflow("plan", "tiny.json", *SIZES, "--schedule", "search", "--split-backward", "--json", "plan.json")
    again = evenflow("simulate", "tiny.json", "plan.json", "--json", "again.json")
    assert again.exit_code == 0
    assert "one step takes 26.000 ms" in again.stdout
    assert read_plan_file(folder / "again.json") == read_plan_file(folder / "plan.json")


def test_a_family_has_an_order_made_for_the_plan_where_that_is_shorter(folder, evenflow):
    uneven = json.loads((folder / "tiny.json").read_text())
    uneven["layers_description"] += [
        {"name": "Output", "type": "TAIL", "nb_layer": 1, "time": 0.9, "memory_parameter": 80}
    ]
    (folder / "uneven.json").write_text(json.dumps(uneven))
    sizes = ("--ranks", 2, "--microbatches", 5)
    planned = evenflow("plan", "uneven.json", *sizes, "--schedule", "zbv", "--no-empty", "--json", "plan.json")
    assert planned.exit_code == 0
    assert " ms with the order of zbv made for these times, " in planned.stdout
    assert (
        "% less than under its order for equal times "
        "(optimal to 2 parts in a million: no plan of this schedule with a layer in every cell is shorter"
        in planned.stdout
    )
    fields = json.loads((folder / "plan.json").read_text())
    assert fields["schedule"] == fields["best_family"]["schedule"] == "zbv"
    assert fields["makespan_ms"] < fields["best_family"]["makespan_ms"]
    again = evenflow("simulate", "uneven.json", "plan.json", "--json", "again.json")
    assert again.exit_code == 0
    assert json.loads((folder / "again.json").read_text())["makespan_ms"] == fields["makespan_ms"]
    assert read_plan_file(folder / "again.json") == read_plan_file(folder / "plan.json")
    assert read_plan_file(folder / "plan.json").order


@pytest.mark.usefixtures("fake_solver")
def test_the_order_of_a_family_can_be_written_too(folder, evenflow):
    result = evenflow("plan", "tiny.json", "--ranks", 2, "--microbatches", 2, "--order", "order.csv")
    assert result.exit_code == 0
    assert (folder / "order.csv").read_text() == "0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--split-backward",), "--split-backward must come with --schedule search"),
        (("--schedule", "search", "--less-memory"), "--less-memory must not be given beside --schedule search"),
        (("--schedule", "search", "--apply", "train.yaml"), "--apply must not be given beside --schedule search"),
    ],
)
def test_options_that_do_not_go_together(folder, evenflow, arguments: tuple[str, ...], says: str):
    (folder / "train.yaml").write_text("model: {}\n")
    result = evenflow("plan", "tiny.json", *SIZES, *arguments)
    assert result.exit_code == 2
    assert says in result.stderr


@pytest.mark.parametrize(
    ("order", "says"),
    [
        (["0F0,0B0"], "one line for each of the 2 ranks"),
        ([1, 2], "a list of texts"),
        (["0F0,0X0", "1F0,1B0"], "order of the plan, line 1"),
        (["0F0,0B0", "1F0,1B0"], "num_microbatches must be the 4 of the plan"),
        (["0F0,0F1,0F2,0F3,0B0,0B1,0B2", "1F0,1B0,1F1,1B1,1F2,1B2,1F3,1B3"], "0B3 0 times"),
        (["0F0,0B0,0F1,0B1,0F2,0B2,0F3,0B3", "1F0,1F1,1B0,1B1,1F2,1B2,1F3,1B3"], "must let every action start"),
    ],
)
def test_a_plan_file_with_a_bad_order_is_one_message(folder, evenflow, order: list[object], says: str):
    plan = {
        "ranks": 2, "chunks": 1, "microbatches": 4, "schedule": "search", "sequence_splits": 1, "layers": [[2, 2]],
        "recompute": {}, "order": order,
    }  # fmt: skip
    (folder / "bad.json").write_text(json.dumps(plan))
    result = evenflow("simulate", "tiny.json", "bad.json")
    assert result.exit_code == 2
    assert says in result.stderr
    assert "Traceback" not in result.stderr
