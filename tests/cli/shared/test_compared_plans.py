import json

import pytest

from evenflow.baselines.named_plans import Skipped
from evenflow.cli.shared.compared_plans import manual_plans, picture_paths
from evenflow.errors import InputError
from evenflow.model import Sizes
from evenflow.profiles.layer_file import parse_layer_file
from tests.cli.conftest import TINY

NETWORK = parse_layer_file(json.dumps(TINY), place="tiny.json")
SIZES = Sizes(num_ranks=2, num_microbatches=2)


def plans_of(path, text, **options):
    path.write_text(text)
    return manual_plans(path, NETWORK, SIZES, schedule_of_chunks=lambda _chunks: "1f1b", **options)


def test_a_plan_with_a_file_name_or_that_is_shown_has_a_picture(tmp_path):
    """A `file_name` alone is drawn; `show` asks to see it as well. [SAPP guide]"""
    text = "a: {offset: [1, -1], show: true}\nb: {offset: 0, show: false}\n"
    text += "c: {offset: 0, file_name: see.png}\nd: {offset: 0, show: false, file_name: d.svg}\n"
    plans = plans_of(tmp_path / "manual.yaml", text)
    pictures = [(plan.name, plan.picture) for plan in plans]
    assert pictures == [("a", "a.svg"), ("b", None), ("c", "see.png"), ("d", "d.svg")]
    skipped = Skipped(name="e", reason="too few layers")
    assert picture_paths([*plans[:2], skipped], tmp_path) == {"the picture of a": tmp_path / "a.svg"}
    drawn = plans_of(tmp_path / "manual.yaml", text, always_draw=True)
    assert [plan.picture for plan in drawn] == ["a.svg", "b.svg", "see.png", "d.svg"]


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("result.svg", "must not be the picture of another plan"),
        ("result_naive_all_recomp.svg", "must not be the picture of another plan"),
        ("sub/a.svg", "must be the name of a file"),
        ("..", "must be the name of a file"),
    ],
)
def test_a_picture_has_a_plain_name_of_its_own(tmp_path, name, rule):
    with pytest.raises(InputError, match=f"a.file_name {rule}"):
        plans_of(tmp_path / "manual.yaml", f"a:\n  offset: 0\n  show: true\n  file_name: {name}\n")
