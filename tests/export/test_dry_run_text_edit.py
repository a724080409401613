"""Dry runs written into init files that are there."""

import pytest

from evenflow.errors import InputError
from evenflow.export.dry_run_text import format_init_start, format_memory_usage, with_dry_runs
from evenflow.model import Plan
from evenflow.profiles.init.init_file import parse_init_file

ROUND = Plan(schedule="1f1b", num_microbatches=4, layers=((3, 2, 1, 2),), recompute={"full": ((1, 0, 1, 0),)})
OTHER = Plan(schedule="1f1b", num_microbatches=4, layers=((2, 2, 2, 2),), recompute={"full": ((0, 1, 1, 0),)})

MINE = """\
# my model, measured in May
time_config: {head: 1, body: 9, tail: 6}   # ms

pipeline_config:
  num_layer: 70         # more next time
  pipeline_num: 4
  memory_limit: 56000   # of another tool
recompute_config: {recompute: true}
# the end
"""
PEAKS = format_memory_usage([[40 * 2**30, 30 * 2**30, 20 * 2**30, 10 * 2**30]])


def test_only_the_dry_runs_change():
    changed = with_dry_runs(MINE, [ROUND], file="init.yaml")
    lists = "{recompute: [1, 0, 1, 0], select_recompute: [1, 0, 1, 0], select_comm_recompute: [1, 0, 1, 0]}"
    tool = "  memory_limit: 56000   # of another tool\n"
    assert changed == (
        MINE.replace("70 ", "8 ").replace(tool, f"{tool}  offset: [1, 0, -1, 0]\n").replace("{recompute: true}", lists)
    )
    assert with_dry_runs(changed, [ROUND], file="init.yaml") == changed
    read = parse_init_file(changed + PEAKS, place="init.yaml")
    assert (read.num_layers, read.times is not None) == (8, True)


@pytest.mark.parametrize("start", ["", "\n", "# my model\n\n"])
def test_a_file_without_a_value_is_continued(start):
    assert with_dry_runs(start, [ROUND], file="init.yaml") == start + format_init_start([ROUND])


def test_peaks_of_the_same_dry_runs_stay():
    text = format_init_start([ROUND]).replace("offset: [1, 0, -1, 0]", "offset:  [1,0,-1,0] # mine") + PEAKS
    assert "# mine" in text
    assert with_dry_runs(text, [ROUND], file="init.yaml") == text


def test_peaks_of_other_dry_runs_are_not_given_to_these():
    text = format_init_start([ROUND]) + PEAKS
    with pytest.raises(InputError, match=r"init.yaml, line 23: memory_usage must not be the peaks of other dry runs"):
        with_dry_runs(text, [OTHER], file="init.yaml")
    with pytest.raises(InputError, match="peaks of other dry runs"):
        with_dry_runs(text, [ROUND, OTHER], file="init.yaml")


@pytest.mark.parametrize("text", ["seed: 0\nrecompute_config: {recompute: true}\n", "- 1\n", "text", "{}", "a: [\n"])
def test_what_is_no_init_file_is_refused(text):
    with pytest.raises(InputError, match=r"train.yaml"):
        with_dry_runs(text, [ROUND], file="train.yaml")
