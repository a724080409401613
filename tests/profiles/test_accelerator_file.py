"""Accelerator files in both formats, and what is wrong with others."""

import json
import re
from pathlib import Path

import pytest

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.calibration import SIZES, CalibrationRecord
from evenflow.cluster.data_sheets import ACCELERATORS, accelerator_named
from evenflow.cluster.generations import GENERATIONS
from evenflow.cluster.reached import Reached
from evenflow.errors import InputError
from evenflow.profiles.accelerator_file import accelerator_given, accelerator_path, parse_accelerator_file

WHOLE = """\
name: ours
source: the hall downstairs
flops: {fp32: 50TFLOPS, tf32: 200TFLOPS, bf16: 400TFLOPS, fp16: 410TFLOPS, fp8: 800TFLOPS, fp4: 1.6PFLOPS}
memory: 80GB
memory_bandwidth: 3350GBps
link: {bandwidth: 450GBps, devices: 16, switch_reduces: true}
network: {bandwidth: 400Gbps}
reached:
  product_share: 0.71
  latency_ns: 12000
  standard_errors: {product_share: 0.01}
calibration: {runs: 12, files: [a.csv, b.csv], step_error: 0.03, expected_memory_error: 0.05}
"""
OURS = Accelerator(
    name="ours",
    source="the hall downstairs",
    flops_per_s=50e12,
    flops_per_s_of={
        "float32": 50e12, "tfloat32": 200e12, "bfloat16": 400e12, "float16": 410e12, "float8": 800e12, "float4": 1.6e15
    },
    memory_bytes=80 * 2**30,
    memory_bytes_per_s=3350e9,
    link_bytes_per_s=450e9,
    link_devices=16,
    switch_reduces=True,
    network_bytes_per_s=50e9,
    reached=Reached(product_share=0.71, latency_ns=12_000.0, standard_errors={"product_share": 0.01}),
    calibration=CalibrationRecord(runs=12, files=("a.csv", "b.csv"), step_error=0.03, expected_memory_error=0.05),
)  # fmt: skip
FIELDS = {
    "flops": {"bf16": "400TFLOPS"}, "memory": "80GB", "memory_bandwidth": "3350GBps",
    "link": {"bandwidth": "450GBps"}, "network": {"bandwidth": "50GBps"},
}  # fmt: skip

COVERED = {
    "runs": 3, "precision": "bf16", "experts": False, "software": ["fused-attention"],
    **{name: [1, 2] for name in SIZES},
}  # fmt: skip


def read(fields: dict[str, object]) -> Accelerator:
    return parse_accelerator_file(json.dumps(fields), place="ours.json")


def test_every_field(tmp_path: Path) -> None:
    assert parse_accelerator_file(WHOLE, place="other.yaml") == OURS
    path = tmp_path / "Ours.YML"
    path.write_text(WHOLE, encoding="utf-8")
    assert accelerator_given(str(path)) == OURS


def test_what_is_not_said_is_what_is_usual() -> None:
    found = read(FIELDS)
    assert (found.name, found.source, found.link_devices, found.calibration) == ("ours", "", 8, None)
    assert found.reached == Reached()


class TestRates:
    def test_a_format_that_is_not_stated_runs_as_the_next_wider_one(self) -> None:
        found = read({**FIELDS, "flops": {"fp32": "20TFLOPS", "fp16": "100TFLOPS", "fp4": "300TFLOPS"}})
        expected = {"float32": 20, "tfloat32": 20, "bfloat16": 100, "float16": 100, "float8": 100, "float4": 300}
        assert {dtype: rate / 1e12 for dtype, rate in found.flops_per_s_of.items()} == expected

    def test_one_rate_is_that_of_all(self) -> None:
        assert set(read(FIELDS).flops_per_s_of.values()) == {400e12} == {read(FIELDS).flops_per_s}

    def test_rates_that_are_stated_replace_those_of_the_base(self) -> None:
        known = accelerator_named("h100")
        found = read({"base": "H100", "flops": {"fp8": "1500TFLOPS"}})
        assert found.flops_per_s_of == {**known.flops_per_s_of, "float8": 1500e12}


class TestBase:
    @pytest.mark.parametrize("name", ACCELERATORS)
    def test_a_base_alone_is_a_known_accelerator_under_another_name(self, name: str) -> None:
        found, known = read({"base": name, "name": name}), accelerator_named(name)
        assert found == known

    def test_parts_of_sections_are_replaced(self) -> None:
        known = accelerator_named("gb200")
        found = read({"base": "gb200", "link": {"devices": 36}, "reached": {"link_share": 0.75}})
        assert (found.link_devices, found.link_bytes_per_s) == (36, known.link_bytes_per_s)
        assert found.switch_reduces is known.switch_reduces is True
        assert read({"base": "gb200", "link": {"switch_reduces": False}}).switch_reduces is False
        assert found.reached == known.reached.changed({"link_share": 0.75})
        assert read({"base": "gb200", "link": {"bandwidth": "600GBps"}}).link_devices == 72


class TestGeneration:
    @pytest.mark.parametrize("name", GENERATIONS)
    def test_devices_of_a_generation_reach_alike(self, name: str) -> None:
        found = read({**FIELDS, "generation": name})
        assert (found.generation, found.reached) == (name, GENERATIONS[name])
        assert read({"base": "a100", "generation": name}).reached == GENERATIONS[name]

    def test_that_of_the_base_is_taken(self) -> None:
        assert read({"base": "a100"}).generation == "Ampere"


class TestNetwork:
    def test_devices_share_the_cards_of_their_node(self) -> None:
        found = read({**FIELDS, "network": {"bandwidth": "25GBps", "cards_per_node": 4}})
        assert found.network_bytes_per_s == 12.5e9
        rack = read({"base": "gb200", "network": {"bandwidth": "100GBps", "cards_per_node": 2, "devices_per_node": 4}})
        assert rack.network_bytes_per_s == 50e9


def test_a_name_is_no_file() -> None:
    assert accelerator_given("A100") is ACCELERATORS["a100-80"]
    assert (accelerator_path("h100"), accelerator_path(None)) == (None, None)
    assert accelerator_path("x/h100.json") == Path("x/h100.json")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"flop": {}}, "flop is an unknown field; did you mean 'flops'"),
        ({"flops": {}}, "flops must have the rate of a number format"),
        ({"flops": "400TFLOPS"}, "flops must be an object"),
        ({"flops": {"bf17": "1TFLOPS"}}, r"flops\.bf17 is an unknown field; did you mean 'bf16'"),
        ({"flops": {"bf16": 400}}, r"flops\.bf16 must be a number of floating-point.*312TFLOPS"),
        ({"flops": {"bf16": "0TFLOPS"}}, r"flops\.bf16 must be .*above zero"),
        ({"flops": {"bf16": None}}, r"flops\.bf16 must be a text"),
        ({"memory": "lots"}, "memory must be a number with"),
        ({"memory": "0GB"}, "memory must be .*above zero"),
        ({"memory_bandwidth": "3350"}, "memory_bandwidth must be a number with"),
        ({"link": {"devices": 8}}, r"link must have the field 'bandwidth'"),
        ({"link": {"bandwidth": "1GBps", "devices": 0}}, r"link\.devices must be"),
        ({"link": {"bandwith": "1GBps"}}, r"link\.bandwith is an unknown field; did you mean 'bandwidth'"),
        ({"link": {"bandwidth": "1GBps", "switch_reduces": 1}}, r"link\.switch_reduces must be true or false"),
        ({"link": [1]}, "link must be an object"),
        ({"network": {"bandwidth": "0GBps"}}, r"network\.bandwidth must be"),
        ({"network": {"bandwidth": "1GBps", "cards_per_node": 1.5}}, r"network\.cards_per_node must be"),
        (
            {"network": {"bandwidth": "1GBps", "devices_per_node": 4}},
            r"network\.devices_per_node must be given together",
        ),
        ({"reached": {"product_share": 1.5}}, r"reached\.product_share must be a share above 0 and at most 1"),
        ({"reached": {"operator_ns": -1}}, r"reached\.operator_ns must be"),
        ({"reached": {"operator_ns": 10**400}}, r"reached\.operator_ns must be"),
        ({"reached": {"operator_ns": True}}, r"reached\.operator_ns must be"),
        ({"reached": {"product_sahre": 0.5}}, "did you mean 'product_share'"),
        ({"reached": {"standard_errors": {"product_share": "x"}}}, r"standard_errors\.product_share must be"),
        ({"reached": {"standard_errors": {"speed": 1}}}, r"standard_errors\.speed is an unknown field"),
        ({"calibration": {}}, "calibration must have the field 'runs'"),
        ({"calibration": {"runs": 0}}, r"calibration\.runs must be"),
        ({"calibration": {"runs": 1, "files": "a.csv"}}, r"calibration\.files must be a list of texts"),
        ({"calibration": {"runs": 1, "step_error": -0.5}}, r"calibration\.step_error must be"),
        ({"generation": "hoper"}, "generation must be one of .*did you mean 'Hopper'"),
        ({"generation": 7}, "generation must be a text"),
        ({"base": "h1000"}, "base must be one of .*did you mean 'h100'"),
        ({"base": 5}, "base must be a text"),
        ({"name": ""}, "name must be a text"),
    ],
)
def test_wrong_fields(change: dict[str, object], words: str) -> None:
    with pytest.raises(InputError, match=rf"^ours\.json: .*{words}"):
        read({**FIELDS, **change})


@pytest.mark.parametrize("missing", FIELDS)
def test_what_a_file_without_a_base_must_have(missing: str) -> None:
    with pytest.raises(InputError, match=f"must have the field '{missing}'"):
        read({key: value for key, value in FIELDS.items() if key != missing})


def test_lines_of_yaml_are_named() -> None:
    with pytest.raises(InputError, match=r"other\.yaml, line 9: reached\.product_share must be a share"):
        parse_accelerator_file(WHOLE.replace("0.71", "7.1"), place="other.yaml")


@pytest.mark.parametrize("place", ["x.yaml", "x.json"])
@pytest.mark.parametrize("text", ["", "[]", "{", "5", "a: b: c", "\x00", "base: *x"])
def test_what_is_no_object(text: str, place: str) -> None:
    with pytest.raises(InputError, match=rf"^(cannot read )?x\.{place[2:]}"):
        parse_accelerator_file(text, place=place)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none\.yaml: no such file"):
        accelerator_given(str(tmp_path / "none.yaml"))


@pytest.mark.parametrize(
    ("calibration", "message"),
    [
        ({"runs": 3, "before": {"product_share": 0}}, "product_share must be a share above 0 and at most 1, got 0"),
        ({"runs": 3, "before": {"speed": 1}}, "calibration.before.speed is an unknown field"),
        ({"runs": 3, "covered": [{"runs": 3}]}, "hidden"),
        ({"runs": 3, "covered": [COVERED | {"hidden": [8, 4]}]}, "hidden must have the smallest size first"),
        ({"runs": 3, "covered": [COVERED | {"width": 3}]}, "width is an unknown field"),
    ],
)
def test_runs_of_a_calibration_that_cannot_be(calibration: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        read(FIELDS | {"calibration": calibration})


def test_runs_of_a_calibration_are_read() -> None:
    record = read(
        FIELDS | {"calibration": {"runs": 3, "before": {"product_share": 0.5}, "covered": [COVERED]}}
    ).calibration
    assert record is not None
    assert record.before == {"product_share": 0.5}
    assert record.covered[0].hidden == (1, 2)
