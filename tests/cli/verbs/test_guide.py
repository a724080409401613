import functools
import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from evenflow.cli.shared.files.written_mark import marked
from evenflow.export.dry_run_text import format_dry_runs
from evenflow.profiles.memory.dry_run_guide import find_dry_runs
from evenflow.profiles.plan_file import parse_plan
from tests.cli.conftest import files_in

SIXTEEN = ("guide", "--ranks", 16, "--layers", 96, "--recompute", "select,comm,both")
FOUR = ("guide", "--ranks", 4, "--layers", 80, "--recompute", "full")

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


def block(ranks: int, layers: int, kinds: set[str]) -> str:
    return "\n".join(format_dry_runs(cached_guide(ranks, layers, frozenset(kinds)).rounds))


def test_the_block_then_what_to_do(evenflow):
    result = evenflow(*FOUR)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(block(4, 80, {"full"}) + "\n\n")
    assert "stages 0 to 3, in later rounds of stages 1 to 2" in result.stdout
    assert "evenflow collect-peaks output_dryrun1 output_dryrun2 >> INIT.yaml" in result.stdout


def test_kinds_in_any_order_with_spaces_or_none(evenflow):
    assert evenflow(*SIXTEEN).stdout == evenflow(*SIXTEEN[:-1], " both, select ,comm").stdout
    none = evenflow(*FOUR[:-1], "none")
    assert none.stdout.count("recompute: [0, 0, 0, 0]") == 3 * 2


def test_json_has_rounds_that_are_plan_files(evenflow, tmp_path: Path):
    file = tmp_path / "guide.json"
    assert evenflow(*FOUR, "--json", file).exit_code == 0
    fields = json.loads(file.read_text())
    found = cached_guide(4, 80, frozenset({"full"}))
    assert (fields["ranks"], fields["num_layers"], fields["recompute_kinds"]) == (4, 80, ["full"])
    assert fields["standard_errors"] == found.standard_errors
    assert tuple(parse_plan(json.dumps(each), place="x") for each in fields["rounds"]) == found.rounds
    assert [each["measured_ranks"] for each in fields["rounds"]] == [[0, 1, 2, 3], [1, 2]]
    assert sum(fields["rounds"][0]["mindformers"]["offset"]) == 0


def test_the_init_file_takes_the_peaks(evenflow, tmp_path: Path):
    init = tmp_path / "init.yaml"
    result = evenflow(*FOUR, "--init-file", init)
    assert f"evenflow fit-memory {init}" in result.stdout
    assert YAML(typ="safe").load(init.read_text())["pipeline_config"]["pipeline_num"] == 4


PEAKS = """\
memory_usage:
  head_memory: 40000
  tail_memory: 9000
  body_memories:
    stage_id: [[1, 2], [1, 2]]
    memories: [[30000, 20000], [31000, 21000]]
"""


class TestInitFileThatIsThere:
    def test_a_training_file_is_refused(self, evenflow, folder):
        (folder / "train.yaml").write_text(TRAIN)
        result = evenflow(*FOUR, "--init-file", "train.yaml")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "train.yaml must be an init file, with pipeline_config and the sections beside it" in result.stderr
        assert (folder / "train.yaml").read_text() == TRAIN

    def test_the_guide_again_keeps_the_peaks(self, evenflow, folder):
        assert evenflow(*FOUR, "--init-file", "init.yaml").exit_code == 0
        measured = (folder / "init.yaml").read_text() + PEAKS
        (folder / "init.yaml").write_text(measured)
        assert evenflow(*FOUR, "--init-file", "init.yaml").exit_code == 0
        assert (folder / "init.yaml").read_text() == measured

    def test_peaks_of_other_dry_runs_stay_where_they_are(self, evenflow, folder):
        assert evenflow(*FOUR, "--init-file", "init.yaml").exit_code == 0
        measured = (folder / "init.yaml").read_text() + PEAKS
        (folder / "init.yaml").write_text(measured)
        other = ("guide", "--ranks", 5, "--layers", 80, "--recompute", "full", "--init-file", "init.yaml")
        result = evenflow(*other)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "memory_usage must not be the peaks of other dry runs" in result.stderr
        assert (folder / "init.yaml").read_text() == measured
        assert evenflow(*other, "--overwrite").exit_code == 0
        assert "memory_usage:" not in (folder / "init.yaml").read_text()

    def test_times_and_comments_stay(self, evenflow, folder):
        (folder / "init.yaml").write_text("# mine\ntime_config: {head: 1, body: 2, tail: 3}  # ms\n")
        assert evenflow(*FOUR, "--init-file", "init.yaml").exit_code == 0
        text = (folder / "init.yaml").read_text()
        assert text.startswith("# mine\ntime_config: {head: 1, body: 2, tail: 3}  # ms\npipeline_config:\n")


@pytest.mark.parametrize("form", ["unix", "windows", "bom"])
def test_a_training_file_for_each_round_and_nothing_else_changes(evenflow, tmp_path: Path, form: str):
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
        assert written.read_bytes() == marked(expected.encode(), first_line=True)
        assert f"--config {written}" in result.stdout
    again = (*FOUR, "--apply", train, "--output-folder", tmp_path / "rounds")
    assert evenflow(*again).exit_code == 0
    written.write_bytes(written.read_bytes() + b"# mine\n")
    assert evenflow(*again).exit_code == 2
    assert written.read_bytes().endswith(b"# mine\n")


def test_beside_the_training_file(evenflow, folder: Path):
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
def test_bad_input_is_one_message_and_nothing_is_written(evenflow, folder: Path, changes, says):
    (folder / "train.yaml").write_text(TRAIN)
    before = files_in(folder)
    result = evenflow(*FOUR, *changes)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert files_in(folder) == before
    assert (folder / "train.yaml").read_text() == TRAIN


def test_a_training_file_of_json_is_written_as_json(evenflow, tmp_path: Path):
    train = tmp_path / "train.json"
    train.write_text('{"model": {"model_config": {"num_layers": 80}}}')
    for options in ((), ("--overwrite",)):
        assert evenflow(*FOUR, "--apply", train, *options).exit_code == 0
    written = json.loads((tmp_path / "train.round1.json").read_text())
    assert written["parallel_config"]["pipeline_stage"] == 4


def test_an_init_file_is_new_under_a_name_of_yaml_only(evenflow, tmp_path: Path):
    init = tmp_path / "init.json"
    refused = evenflow(*FOUR, "--init-file", init)
    assert refused.exit_code == 2
    assert "--init-file must not have the suffix of another format: it is written as .yaml" in refused.stderr
    init.write_text('{"pipeline_config": {}}')
    assert evenflow(*FOUR, "--init-file", init).exit_code == 0, "JSON is YAML, and what is there is edited"
    assert json.loads(init.read_text())["pipeline_config"]["num_layer"] == 80
