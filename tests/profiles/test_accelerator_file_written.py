"""An accelerator file reads back as what was written."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.calibration import SIZES, CalibrationRecord, CoveredRuns
from evenflow.cluster.data_sheets import ACCELERATORS
from evenflow.cluster.generations import GENERATIONS
from evenflow.cluster.reached import PARAMETERS, Reached
from evenflow.profiles.accelerator_file import RATES, format_accelerator_file, parse_accelerator_file
from evenflow.profiles.calibration_record import ERRORS
from evenflow.ranges import BYTES_PER_S, FLOPS, MEMORY_BYTES, PAIR_SLOWDOWN

TEXTS = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), min_size=1).filter(str.strip)
BANDWIDTHS = st.integers(1, int(BYTES_PER_S.most)).map(float)
ANY = st.floats(0, 1e12)


def values(name: str) -> st.SearchStrategy[float]:
    is_share = name.endswith("_share") and name != "reserve_share"
    if name == "pair_slowdown":
        return st.floats(PAIR_SLOWDOWN.least, PAIR_SLOWDOWN.most)
    return st.floats(0, 1, exclude_min=True) if is_share else ANY


PARAMETER_SETS = st.fixed_dictionaries({name: values(name) for name in PARAMETERS})
REACHED = st.builds(
    lambda stated, errors: Reached(**stated, standard_errors=errors),
    PARAMETER_SETS,
    st.dictionaries(st.sampled_from(PARAMETERS), ANY),
)
RANGES = st.tuples(st.integers(1, 10**6), st.integers(1, 10**6)).map(lambda ends: (min(ends), max(ends)))
COVERED = st.builds(
    CoveredRuns,
    runs=st.integers(1, 10**6),
    precision=TEXTS,
    experts=st.booleans(),
    software=st.lists(TEXTS).map(tuple),
    **dict.fromkeys(SIZES, RANGES),
)
CALIBRATIONS = st.builds(
    CalibrationRecord,
    runs=st.integers(1, 10**6),
    files=st.lists(TEXTS).map(tuple),
    before=st.tuples(PARAMETER_SETS, st.sets(st.sampled_from(PARAMETERS))).map(
        lambda drawn: {name: drawn[0][name] for name in drawn[1]}
    ),
    covered=st.lists(COVERED, max_size=3).map(tuple),
    **{name: st.none() | st.floats(0, 1000) for name in ERRORS},
)


@st.composite
def accelerators(draw: st.DrawFn) -> Accelerator:
    rate = st.floats(0, FLOPS.most, exclude_min=True) | st.integers(1, 10**7).map(lambda tenth: tenth / 10 * 1e12)
    rates = {dtype: draw(rate) for dtype in RATES.values()}
    return Accelerator(
        name=draw(TEXTS),
        source=draw(st.just("") | TEXTS),
        generation=draw(st.just("") | st.sampled_from(list(GENERATIONS))),
        flops_per_s=rates["float32"],
        flops_per_s_of=rates,
        memory_bytes=draw(st.integers(1, int(MEMORY_BYTES.most))),
        memory_bytes_per_s=draw(BANDWIDTHS),
        link_bytes_per_s=draw(BANDWIDTHS),
        link_devices=draw(st.integers(1, 10**6)),
        switch_reduces=draw(st.booleans()),
        network_bytes_per_s=draw(BANDWIDTHS),
        reached=draw(REACHED),
        calibration=draw(st.none() | CALIBRATIONS),
    )


@given(accelerators(), st.booleans())
def test_what_is_written_reads_back(accelerator: Accelerator, is_json: bool) -> None:
    place = "file.json" if is_json else "file.yaml"
    text = format_accelerator_file(accelerator, is_json=is_json)
    found = parse_accelerator_file(text, place=place)
    assert found == accelerator
    assert format_accelerator_file(found, is_json=is_json) == text


@pytest.mark.parametrize("accelerator", ACCELERATORS.values(), ids=lambda accelerator: accelerator.name)
def test_known_accelerators_read_back(accelerator: Accelerator) -> None:
    assert parse_accelerator_file(format_accelerator_file(accelerator), place="x.yaml") == accelerator


def test_the_text_of_a_calibrated_accelerator() -> None:
    reached = Reached(product_share=0.71, standard_errors={"step_ns": 2e6, "product_share": 0.004})
    notes = CalibrationRecord(runs=3, files=("runs.csv",), step_error=0.021)
    lines = format_accelerator_file(
        replace(ACCELERATORS["h100"], name="ours", reached=reached, calibration=notes)
    ).splitlines()
    assert lines[:19] == [
        'name: "ours"',
        'source: "NVIDIA H100 SXM data sheet, Hopper white paper; DGX H100: 400 Gb/s a device"',
        'generation: "Hopper"',
        "flops:",
        '  fp32: "66.9TFLOPS"',
        '  tf32: "494.7TFLOPS"',
        '  bf16: "989.4TFLOPS"',
        '  fp16: "989.4TFLOPS"',
        '  fp8: "1978.9TFLOPS"',
        '  fp4: "1978.9TFLOPS"',
        'memory: "79.1GB"',
        'memory_bandwidth: "3350GBps"',
        "link:",
        '  bandwidth: "450GBps"',
        "  devices: 8",
        "  switch_reduces: true",
        "network:",
        '  bandwidth: "50GBps"',
        "reached:",
    ]
    assert lines[19] == "  product_share: 0.71"
    assert lines[-7:] == [
        "  standard_errors:",
        "    product_share: 0.004",
        "    step_ns: 2000000.0",
        "calibration:",
        "  runs: 3",
        '  files: ["runs.csv"]',
        "  step_error: 0.021",
    ]
