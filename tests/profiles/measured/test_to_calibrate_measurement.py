"""What a measured run is for a calibration."""

import pytest

from evenflow.cluster.data_sheets import accelerator_named
from evenflow.predict.calibration.measurement import MemoryOf, Quantity
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.to_calibrate import measurement_of
from tests.profiles.measured.rows import make_run


def test_units_are_nanoseconds_and_bytes_and_what_was_not_measured_is_none() -> None:
    one = measurement_of(completed(make_run(mem_gib="2.5", mem_rank="last")))
    assert (one.step_ns, one.memory_bytes, one.is_last_rank) == (1.5e9, 2.5 * 2**30, True)
    assert measurement_of(completed(make_run(step_s=""))).measured(Quantity.TIME) is None
    assert measurement_of(completed(make_run())).measured(Quantity.MEMORY) is None


@pytest.mark.parametrize(
    ("notes", "counted"),
    [
        ("", MemoryOf.ALLOCATED),
        ("peak=allocated", MemoryOf.ALLOCATED),
        ("log of torchtitan; peak=reserved", MemoryOf.RESERVED),
        ("peak=device", MemoryOf.DEVICE),
        ("as nvidia-smi shows it", MemoryOf.DEVICE),
    ],
)
def test_memory_counts_what_the_notes_say(notes, counted) -> None:
    assert measurement_of(completed(make_run(mem_gib="30", notes=notes))).memory_of is counted


def test_a_device_shows_more_than_is_reserved_and_that_is_more_than_is_allocated() -> None:
    kinds = ("peak=allocated", "peak=reserved", "peak=device")
    runs = [measurement_of(completed(make_run(mem_gib="30", notes=notes))) for notes in kinds]
    reached = accelerator_named("h100").reached.changed({"reserve_share": 0.1, "driver_bytes": 2.0**30})
    allocated, reserved, device = (run.predicted(Quantity.MEMORY, reached) for run in runs)
    assert reserved == pytest.approx(1.22 * allocated)
    assert device == pytest.approx(reserved + 2**30)
