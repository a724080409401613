import functools
import json
import re
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML

from evenflow.cli.exit_status import exit_status
from evenflow.cli.sapp.guide_questions import interactive_guide
from evenflow.export.dry_run_text import format_dry_runs
from evenflow.profiles.memory.dry_run_guide import find_dry_runs
from evenflow.profiles.plan_file import parse_plan
from tests.cli.conftest import files_in

SIXTEEN = ("guide", "--ranks", 16, "--layers", 96, "--recompute", "select,comm,both")
FOUR = ("guide", "--ranks", 4, "--layers", 80, "--recompute", "full")

GUIDE_TRANSCRIPT = """\
Please enter the pipeline stage number (0 if none): 16
Please enter the number of layers (0 if none): 96
Do you consider full recomputation?[y/n]? n
Do you consider select recomputation?[y/n]? y
Does your communication recomputation co-work with select recomputation?[y/n]? y
Do you consider extra communication recomputation?[y/n]? y
2025-02-17 21:20:12,683 - pipeline_balance - OUTPUT - Please dryrun following config, 1 round(s) is needed
2025-02-17 21:20:12,684 - pipeline_balance - OUTPUT - for round 1, please dryrun config:
        offset: [0, 0, -4, -2, 2, -2, -2, 10, -2, -2, -2, 0, 2, 2, 0, 0]
        recompute: [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
        select_recompute: [5, 5, 2, 1, 4, 3, 2, 14, 4, 4, 4, 6, 1, 5, 5, 6]
        select_comm_recompute: [0, 5, 0, 1, 1, 4, 2, 2, 1, 3, 2, 6, 4, 5, 5, 1]
"""

TRAIN = """\
# my training
parallel:
  pipeline_config: {pipeline_interleave: True, pipeline_scheduler: '1f1b'}
parallel_config:
  data_parallel: 8   # kept
  pipeline_stage: 8
  micro_batch_num: 64
  seq_split_num: 1
recompute_config:
  recompute: False
  select_recompute: True
  select_comm_recompute: False
model:
  model_config:
    num_layers: 80
    offset: [ [ -1, 0, 0, 0, 0, 0, 0, 0 ],
              [ 1, 0, 0, 0, 0, 0, 0, 0 ] ]
    pp_interleave_num: 2
"""


cached_guide = functools.cache(find_dry_runs)


@pytest.fixture(autouse=True)
def _search_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The commands search once for the same sizes and kinds."""
    monkeypatch.setattr(
        "evenflow.cli.verbs.guide.find_dry_runs",
        lambda ranks, layers, kinds: cached_guide(ranks, layers, frozenset(kinds)),
    )


def without_numbers(text: str) -> str:
    """A transcript with `TIME` for times and the length for lists."""
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}", "TIME", text)
    return re.sub(r"\[-?\d[-\d, ]*\]", lambda numbers: f"[{numbers[0].count(',') + 1}]", text)


def block(ranks: int, layers: int, kinds: set[str]) -> str:
    return "\n".join(format_dry_runs(cached_guide(ranks, layers, frozenset(kinds)).rounds))


def ask(*answers: str) -> Result:
    """The questions, with these answers and then the end of the input."""

    @click.command()
    @click.pass_context
    def command(context: click.Context) -> None:
        context.exit(exit_status(interactive_guide))

    return CliRunner().invoke(command, input="".join(f"{answer}\n" for answer in answers))


class TestQuestions:
    def test_the_transcript_is_that_of_the_guide(self):
        result = ask("16", "96", "n", "y", "y", "y")
        assert result.exit_code == 0
        assert without_numbers(result.stdout) == without_numbers(GUIDE_TRANSCRIPT)
        (plan,) = cached_guide(16, 96, frozenset({"select", "comm", "both"})).rounds
        assert f"offset: {[count - 6 for count in plan.layers[0]]}" in result.stdout

    @pytest.mark.parametrize(
        ("answers", "kinds"),
        [
            (("y", "n", "n", "n"), {"full"}),
            (("1", "Yes", "", "no"), {"full", "select"}),
            (("n", "n", "n", "Y"), {"comm"}),
            (("", "", "", ""), set()),
        ],
    )
    def test_each_kind_has_its_question(self, answers, kinds):
        result = ask("8", "40", *answers)
        assert "\n".join(result.stdout.splitlines()[-4:]) in block(8, 40, kinds)

    def test_wrong_answers_are_asked_for_again(self):
        result = ask("many", "-3", "1", "4", "4", "2.5", "9", "maybe", "n", "n", "n", "n")
        assert result.exit_code == 0
        assert result.stdout.count("stage number") == 4
        assert result.stdout.count("number of layers") == 3
        assert result.stdout.count("full recomputation") == 2
        for reason in ("'many' is not", "'-3' is not", "2 to 1000", "cannot be told", "'2.5' is not", "y or n"):
            assert reason in result.stderr

    @pytest.mark.parametrize("answers", [("0",), ("",), ("*",), ("16", "0")])
    def test_nothing_to_guide_to(self, answers):
        result = ask(*answers)
        assert (result.exit_code, result.stderr) == (0, "there is nothing to dry-run without stages and layers\n")
        assert "round" not in result.stdout

    @pytest.mark.parametrize("answers", [(), ("16",), ("16", "96", "y")])
    def test_the_end_of_the_input_ends_it(self, answers):
        result = ask(*answers)
        assert (result.exit_code, result.stderr.strip()) == (130, "interrupted: some questions were not answered")
        assert "round" not in result.stdout

    def test_few_stages_are_measured_with_more(self):
        result = ask("2", "32", "y", "n", "n", "n")
        assert "offset: [6]" in without_numbers(result.stdout)
        assert "pipeline_stage 6" in result.stderr
        assert "RANK_SIZE is 6/2 of your devices" in result.stderr


class TestVerb:
    def test_the_block_then_what_to_do(self, evenflow):
        result = evenflow(*FOUR)
        assert (result.exit_code, result.stderr) == (0, "")
        assert result.stdout.startswith(block(4, 80, {"full"}) + "\n\n")
        assert "stages 0 to 3, in later rounds of stages 1 to 2" in result.stdout
        assert "evenflow collect-peaks output_dryrun1 output_dryrun2 >> INIT.yaml" in result.stdout

    def test_kinds_in_any_order_with_spaces_or_none(self, evenflow):
        assert evenflow(*SIXTEEN).stdout == evenflow(*SIXTEEN[:-1], " both, select ,comm").stdout
        none = evenflow(*FOUR[:-1], "none")
        assert none.stdout.count("recompute: [0, 0, 0, 0]") == 3 * 2

    def test_json_has_rounds_that_are_plan_files(self, evenflow, tmp_path: Path):
        file = tmp_path / "guide.json"
        assert evenflow(*FOUR, "--json", file).exit_code == 0
        fields = json.loads(file.read_text())
        found = cached_guide(4, 80, frozenset({"full"}))
        assert (fields["ranks"], fields["num_layers"], fields["recompute_kinds"]) == (4, 80, ["full"])
        assert fields["standard_errors"] == found.standard_errors
        assert tuple(parse_plan(json.dumps(each), place="x") for each in fields["rounds"]) == found.rounds
        assert [each["measured_ranks"] for each in fields["rounds"]] == [[0, 1, 2, 3], [1, 2]]
        assert sum(fields["rounds"][0]["mindformers"]["offset"]) == 0

    def test_the_init_file_takes_the_peaks(self, evenflow, tmp_path: Path):
        init = tmp_path / "init.yaml"
        result = evenflow(*FOUR, "--init-file", init)
        assert f"evenflow fit-memory {init}" in result.stdout
        assert YAML(typ="safe").load(init.read_text())["pipeline_config"]["pipeline_num"] == 4

    @pytest.mark.parametrize("form", ["unix", "windows", "bom"])
    def test_a_training_file_for_each_round_and_nothing_else_changes(self, evenflow, tmp_path: Path, form: str):
        text = {"unix": TRAIN, "windows": TRAIN.replace("\n", "\r\n"), "bom": "\ufeff" + TRAIN}[form]
        train = tmp_path / "train.yaml"
        train.write_bytes(text.encode())
        result = evenflow(*FOUR, "--apply", train, "--output-folder", tmp_path / "rounds")
        assert result.exit_code == 0
        assert files_in(tmp_path) == {"train.yaml", "rounds/train.round1.yaml", "rounds/train.round2.yaml"}
        assert train.read_bytes() == text.encode()
        for number, plan in enumerate(cached_guide(4, 80, frozenset({"full"})).rounds, start=1):
            full = list(plan.recompute["full"][0])
            expected = (
                text.replace("pipeline_interleave: True", "pipeline_interleave: false")
                .replace("pipeline_stage: 8", "pipeline_stage: 4")
                .replace("micro_batch_num: 64", "micro_batch_num: 4")
                .replace("recompute: False", f"recompute: [{full}]", 1)
                .replace("select_recompute: True", f"select_recompute: [{full}]")
                .replace("select_comm_recompute: False", f"select_comm_recompute: [{full}]")
                .replace("pp_interleave_num: 2", "pp_interleave_num: 1")
            )
            start, end = expected.index("[ [ -1"), expected.index("] ]") + len("] ]")
            expected = f"{expected[:start]}[{[count - 20 for count in plan.layers[0]]}]{expected[end:]}"
            written = tmp_path / "rounds" / f"train.round{number}.yaml"
            assert written.read_bytes() == expected.encode()
            assert f"--config {written}" in result.stdout

    def test_beside_the_training_file(self, evenflow, folder: Path):
        (folder / "train.yaml").write_text(TRAIN)
        assert evenflow(*FOUR, "--apply", "train.yaml").exit_code == 0
        assert files_in(folder) >= {"train.round1.yaml", "train.round2.yaml"}

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            (("--ranks", 1), "ranks must be from 2 to 1000, got 1"),
            (("--ranks", 80), "layers must be more than the ranks"),
            (("--layers", 3), "must be at least one for each of the 4 ranks, got 3"),
            (("--layers", 0), "--layers"),
            (("--recompute", "full,some"), "--recompute must be a list of full, both, select, comm"),
            (("--recompute", ""), "--recompute"),
            (("--recompute", "none,full"), ", got 'none'"),
            (("--apply", "none.yaml"), "none.yaml"),
            (("--apply", "train.yaml", "--layers", 81), "train.yaml: model.model_config.num_layers"),
            (("--output-folder", "x"), "--output-folder must come with --apply"),
            (("--init-file", "train.yaml", "--apply", "train.yaml"), "--init-file must not be the same file as"),
            (("--init-file", "x", "--json", "x"), "--json must not be the same file as --init-file"),
            (("--json", "."), "--json must be a file, not a folder"),
        ],
    )
    def test_bad_input_is_one_message_and_nothing_is_written(self, evenflow, folder: Path, changes, says):
        (folder / "train.yaml").write_text(TRAIN)
        before = files_in(folder)
        result = evenflow(*FOUR, *changes)
        assert (result.exit_code, result.stdout) == (2, "")
        assert says in result.stderr
        assert result.stderr.count("\n") == 1
        assert files_in(folder) == before
        assert (folder / "train.yaml").read_text() == TRAIN
