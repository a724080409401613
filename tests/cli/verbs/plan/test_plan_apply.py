"""``evenflow plan --apply``: the user's training YAML with the plan, beside the file, which stays as it is."""

import json
from dataclasses import replace

import pytest

from evenflow.cli.shared.files.written_mark import marked
from evenflow.model import Plan
from evenflow.simulate import simulate
from tests.cli.conftest import even_outcome, files_in

TWO = ("plan", "tiny.json", "--ranks", 2, "--microbatches", 2, "--apply", "train.yaml")
TRAIN = """\
model:
  model_config:
    num_layers: 4   # of the decoder
    offset: 0
    pp_interleave_num: 2
recompute_config:
  recompute: True
  select_recompute: False
  select_comm_recompute: False
parallel_config: {pipeline_stage: 1, micro_batch_num: 1, seq_split_num: 1}
parallel:
  pipeline_config: {pipeline_interleave: True, pipeline_scheduler: "1f1b"}
"""
PLANNED = """\
model:
  model_config:
    num_layers: 4   # of the decoder
    offset: [[0, 0]]
    pp_interleave_num: 1
recompute_config:
  recompute: [[0, 0]]
  select_recompute: [[0, 0]]
  select_comm_recompute: [[0, 0]]
parallel_config: {pipeline_stage: 2, micro_batch_num: 2, seq_split_num: 1}
parallel:
  pipeline_config: {pipeline_interleave: false, pipeline_scheduler: "1f1b"}
"""

pytestmark = pytest.mark.usefixtures("fake_solver")


@pytest.fixture
def train(folder):
    path = folder / "train.yaml"
    path.write_text(TRAIN)
    return path


@pytest.mark.parametrize("form", ["unix", "windows", "bom"])
def test_the_planned_file_is_written_and_the_given_one_stays(folder, train, evenflow, form):
    def in_form(text: str) -> bytes:
        return {"unix": text, "windows": text.replace("\n", "\r\n"), "bom": "\ufeff" + text}[form].encode()

    train.write_bytes(in_form(TRAIN))
    result = evenflow(*TWO)
    assert result.exit_code == 0
    assert "wrote train.planned.yaml" in result.stdout
    assert files_in(folder) == {"tiny.json", "train.yaml", "train.planned.yaml"}
    assert train.read_bytes() == in_form(TRAIN)
    assert (folder / "train.planned.yaml").read_bytes() == marked(in_form(PLANNED), first_line=True)


def test_nothing_is_written_where_no_plan_fits(folder, train, evenflow):
    assert evenflow(*TWO, "--memory", "100MB").exit_code == 3
    assert files_in(folder) == {"tiny.json", "train.yaml"}


@pytest.mark.parametrize(
    ("change", "options", "says"),
    [
        (("num_layers: 4", "num_layers: 5"), (), "train.yaml: model.model_config.num_layers"),
        (("model:", "model: ["), (), "train.yaml"),
        (("num_layers", "num_layers"), ("--apply", "none.yaml"), "none.yaml"),
        (("num_layers", "num_layers"), ("--microbatches", 1), "microbatches must be at least the number of ranks"),
        (("num_layers", "num_layers"), ("--json", "train.planned.yaml"), "the same file as --json"),
        (
            ("num_layers", "num_layers"),
            ("--json", "train.yaml"),
            "the same file as the file of --apply",
        ),
    ],
)
def test_bad_input_is_found_before_the_search(folder, train, evenflow, monkeypatch, change, options, says):
    def search(*_, **__):
        raise AssertionError("searched all the same")

    monkeypatch.setattr("evenflow.solve.solve", search)
    train.write_text(TRAIN.replace(*change))
    result = evenflow(*TWO, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert says in result.stderr
    assert result.stderr.count("\n") == 1
    assert files_in(folder) == {"tiny.json", "train.yaml"}


def test_says_what_the_less_memory_order_needs(folder, train, evenflow):
    result = evenflow(*TWO, "--chunks", 2, "--less-memory")
    assert result.exit_code == 0
    assert "ENABLE_LESS_MEM_VPP=1" in result.stderr


def test_a_plan_that_cannot_be_applied_is_still_shown(folder, train, evenflow, monkeypatch):
    """Select-only beside comm-only layers come out of the search, not out of the sizes."""
    tiny = json.loads((folder / "tiny.json").read_text())
    tiny["layers_description"][0] |= {"memory_select_rec": 5, "memory_select_comm": 5}
    (folder / "tiny.json").write_text(json.dumps(tiny))

    def mixed(request, **options):
        plan = Plan(schedule="1f1b", num_microbatches=2, layers=((2, 2),),
                    recompute={"select": ((1, 0),), "comm": ((1, 0),)})  # fmt: skip
        return replace(even_outcome(request, **options), simulation=simulate(request.network, plan))

    monkeypatch.setattr("evenflow.solve.solve", mixed)
    result = evenflow(*TWO, "--mix", "any")
    assert result.exit_code == 2
    assert "tiny: 4 layers on 2 ranks" in result.stdout
    assert "must not mix select-only and comm-only" in result.stderr
    assert not (folder / "train.planned.yaml").exists()


@pytest.mark.parametrize("size", [4, "best"])
def test_groups_of_another_size_are_refused_before_the_search(folder, train, evenflow, size):
    result = evenflow(
        "plan", "tiny.json", "--ranks", 2, "--chunks", 2, "--microbatches", 5, "--group-size", size, "--apply", train
    )
    assert result.exit_code == 2
    assert "group" in result.stderr
    assert "MindFormers" in result.stderr
    assert not list(folder.glob("*.planned.yaml"))
