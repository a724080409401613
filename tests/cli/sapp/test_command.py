import io
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.draw.png_files import NEEDS_FONTS, png_size
from tests.paths import ROOT
from tests.report.decoder import read_page

DOOR = ROOT / "run_pipeline_balance.py"


@pytest.fixture
def layers(folder: Path) -> Path:
    """A folder to stand in, with the examples as ``./layers``."""
    (folder / "layers").mkdir()
    for file in (ROOT / "examples").iterdir():
        if file.is_file():
            shutil.copy(file, folder / "layers")
    shutil.move(folder / "tiny.json", folder / "layers" / "tiny.json")
    return folder


def written(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and "layers" not in path.parts
    }


@pytest.mark.usefixtures("fake_solver")
class TestBalance:
    def test_a_page_is_in_stages_and_megabytes(self, layers, balance):
        asked = ("-m", "tiny", "-s", 2, "-mb", 2, "-mem", 250, "-naive", "-html", "page.html")
        status, out, _ = balance(*asked)
        assert (status, out.splitlines()[-1]) == (0, "page: page.html")
        page = read_page((layers / "page.html").read_text())
        assert [each["name"] for each in page.head["timelines"]] == [
            "recommended", "naive_all_recomp", "naive_no_recomp",
        ]  # fmt: skip
        assert page.head["rank_word"] == "stage"
        assert page.head["words"]["rank_label"] == "stage {rank}"
        assert page.head["unit"] == {"bytes": 2**20, "name": "MB"}
        figures = dict(page.head["timelines"][0]["figures"])
        assert figures["Sizes"] == "2 stages × 1 chunk × 2 microbatches"
        assert figures["Peak memory"] == "240 MB of 250 MB, on stage 0: fits, 10 MB free"
        assert len(page.plans) == 3
        assert balance(*asked)[0] == 0, "its own page is replaced"
        (layers / "page.html").write_text("mine")
        status, out, message = balance(*asked)
        assert (status, out) == (2, "")
        assert message.startswith("error: --html must not be a file that evenflow did not write, got 'page.html'; ")

    def test_prints_the_blocks_of_the_guide(self, layers, balance):
        status, out, _ = balance("-m", "tiny", "-s", 2, "-mb", 2, "-mem", 250)
        assert status == 0
        # The figures of test_plan.py; the two blocks are those of the [SAPP guide, Step 5].
        assert out == (
            "To put in yaml configuration:\n"
            "# with num_layers 4 and use_parallel True\n"
            "model:\n"
            "  model_config:\n"
            "    offset: [[0, 0]]\n"
            "    pp_interleave_num: 1\n"
            "recompute_config:\n"
            "  recompute: [[0, 0]]\n"
            "  select_recompute: [[0, 0]]\n"
            "  select_comm_recompute: [[0, 0]]\n"
            "parallel_config:\n"
            "  pipeline_stage: 2\n"
            "  micro_batch_num: 2\n"
            "  seq_split_num: 1\n"
            "parallel:\n"
            "  pipeline_config:\n"
            "    pipeline_interleave: false\n"
            '    pipeline_scheduler: "1f1b"\n'
            "————————————— pp: 2, vp: 1, micro:  2 ————————————\n"
            "--------------------  bubble  --------------------\n"
            "   real    =   ideal   +   imba    + recompute\n"
            "  0.5000   =  0.5000   +  0.0000   +  0.0000\n"
            "fill/drain of equal stages: 0.5000 by formula, 0.5000 simulated; idle time (p-1) (f+b)\n"
            "within 25.00 % of optimal: 18.000 ms, bound 13.500 ms\n"
            "total_time: 18.000 ms\n"
            "peak_memory: [240, 220] MB\n"
            "memory_limit: 250 MB, within the limit\n"
            "picture: output/result.svg\n"
        )
        assert written(layers) == {"output/result.svg"}

    def test_naive_and_manual(self, layers, balance):
        flags = ("-m", "llama2_70b.json", "-s", 8, "-mb", 32, "-i", 2, "-mem", 56000, "-naive", 1)
        status, out, _ = balance(*flags, "-manual", "layers/manual_70b.yaml", "-o", "out/put")
        assert status == 0
        assert out.count("To put in yaml configuration:") == 5
        printed = out.splitlines()
        assert [printed[index - 1] for index, line in enumerate(printed) if line.startswith("To put")][1:] == [
            "naive_all_recomp:", "naive_no_recomp:", "by_hand_1_chunk:", "by_hand_2_chunks:"
        ]  # fmt: skip
        assert "  offset: [[-1, 0, 0, 0, 0, 0, 0, 0], [-1, 0, 0, 0, 0, 1, 1, 0]]" in out
        manual = ("by_hand_1_chunk", "by_hand_2_chunks")
        names = ("result", "result_naive_all_recomp", "result_naive_no_recomp", *manual)
        assert written(layers) == {
            f"out/put/{name}.svg" for name in (*names, *(f"Comparison_{each}" for each in manual))
        }
        assert "picture: out/put/Comparison_by_hand_1_chunk.svg\n" in out

    def test_without_a_recommended_plan_nothing_stands_beside_the_others(self, layers, balance):
        (layers / "m.yaml").write_text("mine: {offset: 0, file_name: c.svg}")
        status, out, _ = balance("-m", "tiny", "-s", 2, "-mem", 100, "-manual", "m.yaml")
        assert status == 3
        assert "mine:\n" in out
        assert written(layers) == {"m.yaml", "output/c.svg"}

    @NEEDS_FONTS
    def test_a_manual_entry_is_drawn_into_its_file(self, layers, balance):
        text = (
            "mine: {offset: 0, file_name: c.png}\nother: {offset: 0, show: False, file_name: d.svg}\nnone: {offset: 0}"
        )
        (layers / "m.yaml").write_text(text)
        status, out, _ = balance("-m", "tiny", "-s", 2, "-manual", "m.yaml", "-exec", "false")
        assert status == 0
        assert "mine:\nTo put in yaml configuration:" in out
        assert "picture: output/c.png\n" in out
        assert written(layers) == {"m.yaml", "output/c.png", "output/d.svg"}
        assert png_size(layers / "output" / "c.png")[0] == 3200

    def test_a_picture_of_another_kind_is_refused_before_anything_is_done(self, layers, balance):
        (layers / "m.yaml").write_text("mine: {offset: 0, file_name: c.jpg}")
        status, out, err = balance("-m", "tiny", "-s", 2, "-manual", "m.yaml")
        assert (status, out) == (2, "")
        assert "must end in .svg or .png" in err
        assert written(layers) == {"m.yaml"}

    def test_naive_ones_are_skipped_with_the_guides_conditions(self, layers, balance):
        _, out, _ = balance("-m", "llama2_70b", "-s", 3, "-naive", "-exec", 0)
        assert "naive_all_recomp is skipped: 80 layers do not divide by the 3 parts of the pipeline" in out
        assert "naive_no_recomp is skipped: 80 layers do not divide by the 3 parts of the pipeline" in out

    def test_the_naive_plan_recomputes_what_was_measured(self, layers, balance):
        _, out, _ = balance("-m", "llama2_175b", "-s", 4, "-naive", "-exec", 0)
        assert "every layer is under both; full recomputation was not measured" in out
        assert "naive_no_recomp:\nTo put" in out
        assert written(layers) == {"output/result_naive_all_recomp.svg", "output/result_naive_no_recomp.svg"}

    def test_files_say_what_no_flag_says(self, layers, balance):
        parallel = "parallel_config: {pipeline_stage: 2, micro_batch_num: 6}\nmodel: {model_config: {num_layers: 4}}\n"
        (layers / "train.yaml").write_text(parallel)
        (layers / "init.yaml").write_text("pipeline_config: {num_layer: 4, memory_limit: 300, sim_comm_time: 1}\n")
        status, out, err = balance("-m", "tiny", "-train", "train.yaml", "--init", "init.yaml", "-naive", 1)
        assert status == 0
        assert "pp: 2, vp: 1, micro:  6" in out
        assert "memory_limit: 300 MB" in out
        assert out.count("comm") > 3  # the bubble of messages, in every block
        assert "note: from train.yaml: pipeline_stage 2, micro_batch_num 6\n" in err
        assert "note: from init.yaml: memory_limit 300 MB, sim_comm_time 1 ms\n" in err

    def test_a_file_about_another_model_is_refused(self, layers, balance):
        (layers / "train.yaml").write_text("model: {model_config: {num_layers: 5}}\n")
        status, _, err = balance("-m", "tiny", "-s", 2, "-train", "train.yaml")
        assert status == 2
        assert "train.yaml, line 1: model.model_config.num_layers must be the number of body layers of tiny (4)" in err
        (layers / "init.yaml").write_text("pipeline_config: {num_layer: 5}\n")
        status, _, err = balance("-m", "tiny", "-s", 2, "--init", "init.yaml")
        assert status == 2
        assert "init.yaml: pipeline_config.num_layer must be the number of body layers" in err

    def test_the_constant_memory_counts_on_every_stage(self, layers, balance):
        _, before, _ = balance("-m", "tiny", "-s", 2, "-mb", 2, "-exec", 1)
        _, after, _ = balance("-m", "tiny", "-s", 2, "-mb", 2, "-mc", 100)
        assert "peak_memory: [240, 220] MB" in before
        assert "peak_memory: [340, 320] MB" in after

    def test_dualpipe_v_is_a_table_because_nothing_can_be_pasted(self, layers, balance):
        status, out, err = balance("-m", "tiny", "-s", 2, "-mb", 4, "-dual", 1)
        assert status == 0
        assert "note: no block for MindFormers" in err
        assert out.startswith("stage  layers  ")
        assert "0     1 1" in out
        assert "pp: 2, vp: 2, micro:  4" in out

    def test_nothing_is_drawn_where_the_file_asks_for_no_simulation(self, layers, balance):
        (layers / "init.yaml").write_text("pipeline_config: {pipeline_num: 2, enable_simulation: false}\n")
        status, out, err = balance("-m", "tiny", "--init", "init.yaml")
        assert status == 0
        assert "picture" not in out
        assert "so there is no picture" in err
        assert written(layers) == {"init.yaml"}

    def test_infeasible_prints_no_block(self, layers, balance):
        status, out, err = balance("-m", "tiny", "-s", 2, "-mem", 100)
        assert (status, out) == (3, "")
        assert "infeasible: no plan fits in 100 MB on all stages\n  stage " in err
        assert written(layers) == set()

    def test_dump_prints_the_layers(self, layers, balance):
        status, out, _ = balance("-m", "tiny", "-dump", 1, "-exec", 0)
        assert status == 0
        assert "BODY Layer x 4: forward 1.00000 ms, parameters 100.000 MB" in out
        assert "none 10.000 MB / 2.00000 ms, full 1.000 MB / 3.00000 ms" in out

    def test_flags_reach_the_solver(self, layers, balance, monkeypatch):
        from evenflow import solve
        from evenflow.errors import Interrupted
        from evenflow.model import Sizes

        asked = {}

        def record(request, **options):
            asked.update(options, request=request)
            raise Interrupted

        monkeypatch.setattr(solve, "solve", record)
        long = (
            "--model_name", "llama2_70b", "--stage", 4, "--micro_batch", 6, "--interleave_degree", 2, "--max_memory",
            1024, "--less_memory", "yes", "--time_limit", 5, "--seq_split_num", 2, "-O", 1,
        )  # fmt: skip
        assert balance(*long)[0] == 130
        asked.pop("progress")
        request = asked.pop("request")
        assert request.sizes == Sizes(num_ranks=4, num_microbatches=6, num_chunks=2, sequence_splits=2)
        assert request.memory_limit_bytes == 2**30
        assert asked.pop("known") == ()
        assert asked == {"schedule": "interleaved-less-memory", "time_limit_s": 4.5}  # the rest is for the neighbours
        balance("-m", "llama2_70b")
        assert asked["request"].sizes == Sizes(num_ranks=4, num_microbatches=4)
        assert asked["request"].memory_limit_bytes == 56000 * 2**20
        assert (asked["schedule"], asked["time_limit_s"]) == ("1f1b", 81.0)
        balance("-m", "llama2_70b", "-q")
        assert asked["time_limit_s"] == 90.0

    @pytest.mark.parametrize(
        ("flags", "parts"),
        [
            (("-s", 2), ("-m", "layers/model_name.json", "llama2_70b")),
            (("-m", "tiny", "-lf", "nowhere"), ("nowhere/tiny.json", "-lf")),
            (("-m", "tiny", "-s", "x"), ("-s/--stage", "'x'")),
            (("-m", "tiny", "-s", 0), ("-s/--stage", "'0'")),
            (("-m", "tiny", "-s", 9), ("9 stages", "4")),
            (("-m", "tiny", "-mem", "much"), ("-mem", "'much'")),
            (("-m", "tiny", "-t", "nan"), ("-t/--time_limit", "'nan'")),
            (("-m", "tiny", "-lm", 2), ("-lm/--less_memory", "'2'")),
            (("-m", "tiny", "-manual", "none.yaml"), ("none.yaml",)),
            (("-m", "tiny", "-o", "layers/tiny.json"), ("result.svg", "cannot write")),
            (("-m", "new", "--init", "x.yaml"), ("x.yaml", "no such file")),
            (("-m", "tiny", "--init"), ("-init/--init", "expected one argument")),
            (("-m", "tiny", "-mf", "x"), ("-mf", "layer file")),
            (("-m", "tiny", "-cm", 1), ("-cm", "layer file")),
            (("-m", "tiny", "-wrong", 1), ("-wrong", "--help")),
            (("-m", "tiny", "-tarin", "x"), ("-tarin is an unknown flag; did you mean -train?",)),
            (("-m", "tiny", "-train", "x.yaml"), ("x.yaml", "no such file")),
            (("-m", "tiny", "-O", 3), ("-O", "3")),
            (("-m", "tiny", "-mc", "much"), ("-mc", "'much'")),
            (("-m", "tiny", "-dual", 1, "-i", 3), ("-i must be 2 beside -dual", "3")),
            (("-m", "tiny", "-dual", 1, "-lm", 1), ("-lm must not be given beside -dual",)),
            (("-m", "tiny", "-dual", 1, "-seq", 2, "-s", 2), ("must be 1 for dualpipe-v",)),
        ],
    )
    def test_bad_input_is_one_message_and_nothing_is_written(self, layers, balance, flags, parts):
        status, out, err = balance(*flags)
        assert (status, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        for part in parts:
            assert part in err
        assert written(layers) == set()


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("-s", 2, "-i", 2, "-mem", 100), ("stage 0 binds", "1F1B with one chunk per stage")),
        (("-s", 9), ("use fewer stages or chunks",)),
        (("-s", 2, "-mb", 1), ("the number of stages (2)",)),
        (("-s", 2, "-mb", 4, "-dual", 1), ("stage",)),
        (("-s", 4, "-mb", 1_000_000), ("2 x stages x chunks",)),
    ],
)
def test_everything_that_is_printed_says_stage(layers, balance, flags, said, language):
    _, out, err = balance("-m", "tiny", "-q", "-t", 5, "--lang", language, *flags)
    assert "rank" not in out + err
    assert all(words in out + err for words in (said if language == "en" else ("阶段",)))


def test_what_parts_of_a_sequence_leave_out_is_said_before_anything_else(layers, balance):
    status, out, err = balance("-m", "tiny", "-s", 2, "-mem", 100, "-seq", 2)
    assert (status, out) == (3, "")
    assert err.startswith("note: full recomputation is left out, because sequences are in 2 parts: the keys and ")
    assert "left out" not in balance("-m", "tiny", "-s", 2, "-mem", 100)[2]


@pytest.mark.usefixtures("fake_solver")
def test_without_flags_it_asks(layers, balance, monkeypatch):
    answers = ["y", "2", "2", "", "", "toy", "", "", "", "", "1", "4", "100", "10", "", "", "", "1", "", "", ""]
    monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{answer}\n" for answer in answers)))
    status, out, _ = balance()
    assert status == 0
    assert "memory_limit: 56000 MB, within the limit" in out
    assert written(layers) == {"output/result.svg"}
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert balance("--lang", "en")[:2] == (0, "No flags were given. Answer questions instead [y/n]? ")


@pytest.mark.processes
@pytest.mark.parametrize("redirection", ["<&-", "< /dev/null"])
def test_questions_that_nobody_can_answer_end_the_command(layers, redirection):
    command = f"{sys.executable} {DOOR} {redirection}"
    result = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert result.returncode == 130
    assert result.stderr.endswith("interrupted: some questions were not answered\n")
    assert "Traceback" not in result.stderr


@pytest.mark.processes
def test_the_door_runs_where_the_user_stands(layers):
    command = [sys.executable, str(DOOR), "-m", "llama2_70b", "-s", "8", "-mb", "32", "-naive", "1", "-exec", "0"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert written(layers) == {"output/result_naive_all_recomp.svg", "output/result_naive_no_recomp.svg"}


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The door alone, beside whatever a test puts there."""
    shutil.copy(DOOR, tmp_path)
    return tmp_path


@pytest.mark.processes
def test_the_door_uses_the_environment_beside_it(checkout):
    python = checkout / ".venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text('#!/bin/sh\necho "environment $*"\n')
    python.chmod(0o755)
    result = subprocess.run(
        [sys.executable, "-I", "-S", str(checkout / DOOR.name), "-m", "x"], capture_output=True, text=True
    )
    assert result.stdout == f"environment {checkout / DOOR.name} -m x\n"


@pytest.mark.processes
def test_the_door_says_how_to_install(checkout):
    result = subprocess.run([sys.executable, "-I", "-S", str(checkout / DOOR.name)], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (2, "")
    assert "make setup" in result.stderr
    assert result.stderr.count("\n") == 1
