import json
import shutil
from pathlib import Path

import pytest

from evenflow.profiles.layer_file import read_layer_file
from evenflow.units import MEGABYTE
from tests.paths import ROOT

DEMO, FOUR_STAGES = ROOT / "cfgs" / "init_demo.yaml", ROOT / "cfgs" / "init_pp4.yaml"


@pytest.fixture
def init(folder: Path) -> Path:
    """A copy of the four-stage example, to change."""
    shutil.copy(FOUR_STAGES, folder / "init.yaml")
    return folder / "init.yaml"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


class TestFitMemory:
    def test_prints_unknowns_stages_and_evidence(self, init, evenflow):
        result = evenflow("fit-memory", "init.yaml")
        assert (result.exit_code, result.stderr) == (0, "")
        # The weights are a row of the inverse of the four middle equations, the error their length over sqrt(12).
        lines = result.stdout.splitlines()
        assert lines[0] == "init.yaml: 80 layers on 4 stages, 2 dry runs, 6 peaks"
        assert lines[2:4] == [
            "                         MB  standard error  determined most by",
            "constant             955.34            2.94  "
            "stage 1 of round 2 (+6.2), stage 1 of round 1 (-5.6), stage 2 of round 1 (+4.3)",
        ]
        assert lines[10:14] == [
            "round  stage  layers  full  none  measured MB  computed MB  residual MB",
            "    1      0      20     1    19     66,502.0     66,502.0         +0.0",
            "    1      1      21     2    19     52,536.0     52,536.0         +0.0",
            "    1      2      19     1    18     35,595.0     35,595.0         +0.0",
        ]
        assert lines[-3:] == [
            "standard error of a peak: 0.3 MB, that of rounding to 1 MB alone, "
            "because 6 peaks for 6 unknowns leave no residual",
            "condition number: 71.7",
            "constant: fitted",
        ]

    def test_json_has_everything(self, folder, evenflow):
        assert evenflow("fit-memory", DEMO, "--json", "fit.json").exit_code == 0
        result = json.loads((folder / "fit.json").read_text())
        assert (result["stages"], result["num_layers"], result["rounds"]) == (16, 96, 1)
        assert (result["constant_fitted"], result["degrees_of_freedom"], result["notes"]) == (True, 8, [])
        unknowns = {unknown["name"]: unknown for unknown in result["unknowns"]}
        assert list(unknowns) == ["constant", "parameter", "both", "select", "comm", "none", "head", "tail"]
        assert unknowns["head"]["value_mb"] == pytest.approx(3407.95, abs=0.01)
        measured = [peak["measured_mb"] for peak in result["peaks"]]
        for unknown in unknowns.values():  # a value is the peaks times its weights
            total = sum(weight * peak for weight, peak in zip(unknown["weights"], measured, strict=True))
            assert unknown["value_mb"] == pytest.approx(total, abs=1e-3)
        assert [(peak["round"], peak["stage"]) for peak in result["peaks"]] == [(1, stage) for stage in range(16)]
        for peak in result["peaks"]:
            assert peak["residual_mb"] == pytest.approx(peak["measured_mb"] - peak["computed_mb"], abs=1e-5)

    def test_values_held_at_zero_are_shown_beside_those_without_the_bound(self, folder, evenflow):
        source = ROOT / "cfgs" / "init_eight_peaks.yaml"
        result = evenflow("fit-memory", source, "--layer-file", "layers.json", "--json", "fit.json")
        assert result.exit_code == 0
        lines = result.stdout.splitlines()
        assert lines[2].split() == ["MB", "MB", "without", "bound", "determined", "most", "by"]
        assert lines[3].split() == ["constant", "0.00", "-1,896.75"]
        assert lines[9].split()[:3] == ["head", "6,382.50", "6,142.00"]
        assert "note: constant would be -1,896.8 ± 1.7 MB without a bound, and is held at 0" in lines
        assert any("head (4,245.2 MB) and tail (1,203.2 MB)" in line for line in lines)
        assert any("up to 224.8 MB off, 0.5 % of the peak of stage 11" in line for line in lines)
        unknowns = json.loads((folder / "fit.json").read_text())["unknowns"]
        assert [unknown["standard_error_mb"] for unknown in unknowns] == [None] * 8
        assert unknowns[0]["value_without_bound_mb"] == pytest.approx(-1896.75, abs=0.01)
        assert read_layer_file(folder / "layers.json").constant_bytes == 0

    def test_a_fit_that_hides_a_wrong_peak_is_shown_and_not_planned_with(self, folder, evenflow):
        (folder / "bad.yaml").write_text(DEMO.read_text().replace("head_memory: 96643", "head_memory: 9664"))
        result = evenflow("fit-memory", "bad.yaml")
        assert result.exit_code == 0
        assert "note: head would be -83,571.1 ± 809.1 MB without a bound, and is held at 0" in result.stdout
        assert "516.5 % of the peak of stage 0" in result.stdout
        refused = evenflow("fit-memory", "bad.yaml", "--layer-file", "layers.json")
        assert (refused.exit_code, refused.stdout) == (2, "")
        assert "must give head a memory that is not negative, got '-83,571.1 ± 809.1 MB'" in refused.stderr

    def test_writes_a_layer_file_that_plans(self, folder, evenflow):
        result = evenflow("fit-memory", DEMO, "--layer-file", "layers/demo.json")
        assert result.exit_code == 0
        network = read_layer_file(folder / "layers" / "demo.json")
        assert (network.name, network.num_layers) == ("demo", 96)
        assert network.constant_bytes / MEGABYTE == pytest.approx(1206.804, abs=0.001)
        assert set(network.kinds) == {"none", "select", "comm", "both"}
        assert "wrote layers/demo.json" in result.stderr

    def test_standard_input(self, folder, evenflow):
        result = evenflow("fit-memory", "-", stdin=DEMO.read_text())
        assert (result.exit_code, result.stdout.splitlines()[0]) == (
            0, "standard input: 96 layers on 16 stages, 1 dry run, 16 peaks"
        )  # fmt: skip

    def test_what_is_not_used_is_said(self, init, evenflow):
        edit(init, "  num_layer: 80\n", "  num_layer: 80\n  memory_limit: 56000\n")
        init.write_text(init.read_text() + "profiling_config: {micro_batch_num: 8, folder_path: nowhere}\n")
        result = evenflow("fit-memory", "init.yaml")
        assert result.exit_code == 0
        assert "note: not needed for a fit: memory_limit of pipeline_config" in result.stderr
        assert "note: time_config is used, so the timelines of profiling_config are not read" in result.stderr

    @pytest.mark.parametrize(
        ("old", "new", "parts"),
        [
            ("[45439,35700]", "[45439,3570]", ("init.yaml, line ", "memory_usage", "negative", "evenflow guide")),
            ("offset: [[0,1,-1,0],[0,-1,1,0]]", "offset: 0", ("all of them have 20 layers", "--recompute full")),
            ("stage_id: [[1,2],[1,2]]", "stage_id: [[1,2],[1,3]]", ("stage_id, round 2", "from 1 to 2")),
        ],
    )
    def test_bad_input_is_one_message_and_writes_nothing(self, init, evenflow, old, new, parts):
        edit(init, old, new)
        result = evenflow("fit-memory", "init.yaml", "--json", "fit.json", "--layer-file", "out.json")
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith("error: ")
        assert result.stderr.count("\n") == 1
        for part in parts:
            assert part in result.stderr
        assert not (init.parent / "fit.json").exists()
        assert not (init.parent / "out.json").exists()

    def test_a_layer_file_needs_times(self, init, evenflow):
        text = init.read_text()
        init.write_text(text[: text.index("time_config")] + text[text.index("recompute_config") :])
        assert evenflow("fit-memory", "init.yaml").exit_code == 0
        result = evenflow("fit-memory", "init.yaml", "--layer-file", "out.json")
        assert result.exit_code == 2
        assert "add time_config with head, body and tail in ms" in result.stderr

    def test_an_output_over_the_input_is_refused(self, init, evenflow):
        result = evenflow("fit-memory", "init.yaml", "--layer-file", "init.yaml")
        assert result.exit_code == 2
        assert "--layer-file must not be the same file as INIT.yaml" in result.stderr


TIMELINES = """
profiling_config:
  micro_batch_num: 8
  folder_path: "examples/timelines/llama2_175b"
"""


def with_timelines(path: Path, section: str = TIMELINES) -> None:
    text = DEMO.read_text()
    path.write_text(text[: text.index("time_config")] + text[text.index("recompute_config") :] + section)


class TestTimelines:
    def test_times_come_from_the_folder(self, folder, evenflow, monkeypatch):
        """The example's timelines are made of the times that the demo gives."""
        with_timelines(folder / "init.yaml")
        monkeypatch.chdir(ROOT)
        written = []
        for source in (folder / "init.yaml", DEMO):
            result = evenflow("fit-memory", source, "--layer-file", folder / "layers.json")
            assert result.exit_code == 0
            written.append(read_layer_file(folder / "layers.json"))
        profiled, given = written
        assert profiled.layers[0].forward_ns == pytest.approx(given.layers[0].forward_ns, rel=0.01)
        assert profiled.head.forward_ns == pytest.approx(given.head.forward_ns, rel=0.01)
        assert profiled.tail.forward_ns == pytest.approx(given.tail.forward_ns, rel=0.01)
        assert profiled.constant_bytes == given.constant_bytes

    def test_the_folder_may_be_beside_the_init_file(self, folder, evenflow):
        (folder / "sub").mkdir()
        (folder / "sub" / "timelines").symlink_to(ROOT / "examples" / "timelines" / "llama2_175b")
        with_timelines(folder / "sub" / "init.yaml", TIMELINES.replace("examples/timelines/llama2_175b", "timelines"))
        assert evenflow("fit-memory", "sub/init.yaml", "--layer-file", "out.json").exit_code == 0

    @pytest.mark.parametrize(
        ("old", "new", "part"),
        [
            ("examples/timelines/llama2_175b", "nowhere", "folder_path must be a folder"),
            ("micro_batch_num: 8", "micro_batch_num: 8\n  body_layers: [A, B]", "one kind of body layer"),
        ],
    )
    def test_bad_timelines_are_named(self, folder, evenflow, old, new, part):
        with_timelines(folder / "init.yaml", TIMELINES.replace(old, new))
        result = evenflow("fit-memory", "init.yaml", "--layer-file", "out.json")
        assert result.exit_code == 2
        assert part in result.stderr

    def test_a_wrong_name_is_mended_in_the_file(self, folder, evenflow):
        (folder / "timelines").symlink_to(ROOT / "examples" / "timelines" / "llama2_175b")
        text = TIMELINES.replace("examples/timelines/llama2_175b", "timelines")
        text = text.replace("micro_batch_num: 8", "micro_batch_num: 8\n  body_layers: Absent")
        with_timelines(folder / "init.yaml", text)
        result = evenflow("fit-memory", "init.yaml", "--layer-file", "out.json")
        assert result.exit_code == 2
        assert "name the layers of your model with body_layers in profiling_config of init.yaml" in result.stderr

    def test_an_end_that_no_timeline_shows_is_refused(self, folder, evenflow):
        (folder / "timelines").mkdir()
        source = ROOT / "examples" / "timelines" / "llama2_175b"
        for name in ("trace_view0.json", "trace_view7.json"):
            shutil.copy(source / name, folder / "timelines")
        with_timelines(folder / "init.yaml", TIMELINES.replace("examples/timelines/llama2_175b", "timelines"))
        result = evenflow("fit-memory", "init.yaml", "--layer-file", "out.json")
        assert result.exit_code == 2
        assert "must have a timeline that shows the tail" in result.stderr
        assert "tail_layers" in result.stderr


@pytest.mark.usefixtures("fake_solver")
class TestInit:
    """``run_pipeline_balance.py --init``."""

    FLAGS = ("--init", DEMO, "-m", "demo", "-s", 16, "-i", 3, "-mb", 16, "-mem", 120000)

    def test_decomposes_writes_the_layer_file_and_plans(self, folder, balance):
        status, out, _ = balance(*self.FLAGS)
        assert status == 0
        assert out.startswith(f"memory of {DEMO}:\n  constant: 1,206.80 ± 387.91 MB\n")
        assert "layer file: layers/demo.json\n\nTo put in yaml configuration:\n" in out
        assert (folder / "output" / "result.svg").is_file()
        assert read_layer_file(folder / "layers" / "demo.json").name == "demo"

    def test_what_it_wrote_may_be_written_again(self, folder, balance):
        assert balance(*self.FLAGS)[0] == 0
        before = (folder / "layers" / "demo.json").read_text()
        init = folder / "other.yaml"
        init.write_text(DEMO.read_text().replace("body: 21.99", "body: 22"))
        assert balance("--init", init, *self.FLAGS[2:])[0] == 0
        after = (folder / "layers" / "demo.json").read_text()
        assert after.split("written_by")[0] == before.split("written_by")[0].replace("21.99", "22.0").replace(
            "43.98", "44.0"
        ).replace("45.7392", "45.76").replace("49.4775", "49.5").replace("51.2367", "51.26")

    @pytest.mark.parametrize("content", ["not JSON", '{"layers_description": []}', "example"])
    def test_a_file_of_another_origin_is_kept(self, folder, balance, content):
        (folder / "layers").mkdir()
        source = folder / "source.json"
        source.write_text((ROOT / "examples" / "llama2_175b.json").read_text() if content == "example" else content)
        before = source.read_text()
        (folder / "layers" / "demo.json").symlink_to(source)
        status, out, err = balance(*self.FLAGS)
        assert (status, out) == (2, "")
        assert "-m must not be a file that evenflow did not write" in err
        assert "choose another name, or add --overwrite" in err
        assert source.read_text() == before
        assert balance(*self.FLAGS, "--overwrite")[0] == 0
        assert read_layer_file(source).name == "demo"

    def test_a_layer_file_that_was_edited_is_kept(self, folder, balance):
        assert balance(*self.FLAGS)[0] == 0
        path = folder / "layers" / "demo.json"
        edited = path.read_text().replace("21.99", "20.5")
        path.write_text(edited)
        status, _, err = balance(*self.FLAGS)
        assert status == 2
        assert "-m must not be a file that was changed after evenflow wrote it" in err
        assert path.read_text() == edited

    def test_fit_memory_follows_the_same_rule(self, folder, balance, evenflow):
        """Either command may write again what the other has written."""
        assert balance(*self.FLAGS)[0] == 0
        assert evenflow("fit-memory", DEMO, "--layer-file", "layers/demo.json").exit_code == 0
        assert balance(*self.FLAGS)[0] == 0
        mine = (ROOT / "examples" / "llama2_175b.json").read_text()
        (folder / "layers" / "mine.json").write_text(mine)
        result = evenflow("fit-memory", DEMO, "--layer-file", "layers/mine.json")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "--layer-file must not be a file that evenflow did not write" in result.stderr
        assert (folder / "layers" / "mine.json").read_text() == mine

    def test_the_manual_strategy_of_the_guide(self, folder, balance):
        status, out, _ = balance(*self.FLAGS, "-naive", 1, "-manual", ROOT / "cfgs" / "manual_demo.yaml")
        assert status == 0
        assert "every layer is under both" in out  # no full recompute was dry-run
        assert "\nnaive_no_recomp:\n" in out
        assert "\nmanual1:\n" in out
        assert (folder / "output" / "manual1.svg").is_file()

    def test_bad_peaks_leave_no_file(self, folder, balance):
        init = folder / "bad.yaml"
        init.write_text(DEMO.read_text().replace("head_memory: 96643", "head_memory: 9664"))
        status, out, err = balance("--init", init, *self.FLAGS[2:])
        assert (status, out) == (2, "")
        assert "must give head a memory that is not negative" in err
        assert not (folder / "layers").exists()


def test_the_guide_asks_and_ends(monkeypatch, balance):
    asked = []
    monkeypatch.setattr("evenflow.cli.sapp.command.interactive_guide", lambda: asked.append(True) or 0)
    assert balance("--guide")[0] == 0
    assert asked == [True]
