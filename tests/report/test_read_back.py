"""A report read back gives the same report; a damaged one gives one message."""

import base64
import json
import re
import zlib
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import EncoderWork
from evenflow.report import Advice, RunBlock, report_html, shown_simulation
from evenflow.report.read_back import shown_of_report
from evenflow.simulate import Simulation
from tests.report.decoder import element
from tests.report.test_page import shown
from tests.strategies import encoder_works, moving_simulations, simulations
from tests.thoroughness import examples


@settings(max_examples=examples(50))
@given(simulations(), st.text(min_size=1).map(str.strip).filter(bool), st.none() | st.integers(1, 2**50))
def test_a_report_of_a_report_is_the_same_text(simulation: Simulation, name: str, limit: int | None):
    planned = shown_simulation(
        simulation,
        name=name,
        memory_limit_bytes=limit,
        certificate=name,
        notes=[name],
        plan='{"<": 1}',
    )
    run = RunBlock(title=name, text=name, what=name, note="")
    planned = replace(planned, decision=(Advice(text=name),), run=(run,))
    page = report_html([planned, planned], title=name)
    assert report_html(list(shown_of_report(page, place="r.html")), title=name) == page


PAGE = report_html([shown()], title="t")


def changed(page: str, **fields: Any) -> str:
    """The page with other fields in its only timeline."""
    head = json.loads(element(page, "evenflow-head"))
    head["timelines"][0] |= fields
    return with_head(page, head)


def with_head(page: str, head: Any) -> str:
    return page.replace(element(page, "evenflow-head"), json.dumps(head).replace("<", "\\u003c"))


def with_data(page: str, data: bytes) -> str:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    text = base64.b64encode(packer.compress(data) + packer.flush()).decode()
    return page.replace(element(page, "evenflow-data"), text)


DATA = zlib.decompress(base64.b64decode(element(PAGE, "evenflow-data")), wbits=-15)
COLUMNS = json.loads(element(PAGE, "evenflow-head"))["timelines"][0]["columns"]


@pytest.mark.parametrize(
    ("page", "message"),
    [
        ("<!doctype html>", "r.html must be a report that evenflow wrote; name a plan file, or a report"),
        (PAGE.replace("evenflow-data", "other"), "r.html must be a report that evenflow wrote"),
        (with_head(PAGE, {"version": 2}), "r.html: version must be 1, got 2"),
        (with_head(PAGE, {"version": 1}), "r.html must have the field 'timelines'"),
        (with_data(PAGE, DATA[:-1]), "r.html must be as evenflow wrote it; write the report again"),
        (with_data(PAGE, DATA + b"0"), "r.html must be as evenflow wrote it"),
        (with_data(PAGE, b"\xff" * len(DATA)), "r.html: timelines.0..op must be as evenflow wrote it"),
        (with_data(PAGE, b"\x05" * len(DATA)), "r.html: timelines.0..op must be as evenflow wrote it"),
        (changed(PAGE, ranks=3), "must"),
        (changed(PAGE, ranks=10**9), "the number of ranks must be an integer from 1 to 10,000"),
        (changed(PAGE, actions=7), "rank_starts must be as evenflow wrote it"),
        (changed(PAGE, rank_starts=[0, 9, 8]), "rank_starts must be as evenflow wrote it"),
        (changed(PAGE, stage_rank=[0, 0]), "stage_rank must be as evenflow wrote it"),
        (changed(PAGE, makespan_ns=32), "gap_ns must be as evenflow wrote it"),
        (changed(PAGE, plan=0), "plan must be as evenflow wrote it"),
        (changed(PAGE, kind="guess"), "kind must be as evenflow wrote it"),
        (changed(PAGE, idle=[]), "idle must be as evenflow wrote it"),
        (changed(PAGE, figures=[["a"]]), "figures must be as evenflow wrote it"),
        (changed(PAGE, peak_bytes=[1]), "peak_bytes must be a list of 2 integers"),
        (changed(PAGE, columns={**COLUMNS, "op": {"offset": 10**6, "bytes": 8}}), "op must be as evenflow wrote it"),
        (changed(PAGE, columns={**COLUMNS, "op": {"offset": 0, "bytes": 10**12}}), "must be as evenflow wrote it"),
    ],
)
def test_damaged_reports(page: str, message: str):
    with pytest.raises(InputError, match=message):
        list(shown_of_report(page, place="r.html"))


@settings(max_examples=examples(300))
@given(st.data())
def test_any_damage_gives_an_input_error_or_a_page(data: st.DataObject):
    begin = PAGE.index("evenflow-head") - 40
    cut = data.draw(st.integers(begin, PAGE.index("<main") + 50))
    length = data.draw(st.integers(0, 9))
    damaged = PAGE[:cut] + data.draw(st.text('0123456789-[]{}",:truefalsn<>', max_size=5)) + PAGE[cut + length :]
    with suppress(InputError):
        report_html(list(shown_of_report(damaged, place="r.html")), title="t")


@settings(max_examples=examples(300))
@given(st.data())
def test_any_numbers_give_an_input_error_or_a_page(data: st.DataObject):
    spoiled = bytearray(DATA)
    for _ in range(data.draw(st.integers(1, 3))):
        spoiled[data.draw(st.integers(0, len(DATA) - 1))] = data.draw(st.integers(0, 255))
    with suppress(InputError):
        report_html(list(shown_of_report(with_data(PAGE, bytes(spoiled)), place="r.html")), title="t")


def test_a_bomb_is_not_unpacked():
    bomb = with_data(PAGE, bytes(50 * 2**20))
    assert len(bomb) < 2**20
    with pytest.raises(InputError, match=re.escape("r.html must be as evenflow wrote it")):
        list(shown_of_report(bomb, place="r.html"))


@settings(max_examples=examples(50))
@given(simulations(), encoder_works)
def test_what_encoders_do_is_read_back(simulation: Simulation, work: EncoderWork):
    encoding = replace(simulation, network=replace(simulation.network, encoder_work=work))
    page = report_html([shown_simulation(encoding, name="p", memory_limit_bytes=None)], title="p")
    (again,) = shown_of_report(page, place="r.html")
    assert report_html([again], title="p") == page
    assert encoding.encoded is not None
    both = [done for done in (encoding.encoded.forwards, encoding.encoded.backwards) if done is not None]
    for read, done in zip(again.encoders, both, strict=True):
        own = zip(done.ranks, done.start_ns, done.end_ns, done.microbatches, strict=True)
        assert sorted(own) == sorted(zip(read.ranks, read.start_ns, read.end_ns, read.microbatches, strict=True))


@settings(max_examples=examples(50))
@given(moving_simulations())
def test_copies_are_read_back_and_memory_has_its_peak(moving: Simulation):
    planned = shown_simulation(moving, name="moved", memory_limit_bytes=None)
    page = report_html([planned], title="moved")
    (again,) = shown_of_report(page, place="r.html")
    assert report_html([again], title="moved") == page
    assert (again.copies is not None) is moving.timeline.has_copies
    assert again.idle == moving.idle
    for cause in ("fill_drain_ns", "imbalance_ns", "recompute_ns", "communication_ns", "host_copies_ns"):
        assert np.array_equal(getattr(again.causes, cause), getattr(moving.idle_gaps, cause))
    if again.copies is not None:
        for found, actions, starts_ns, ends_ns in zip(
            again.copies,
            moving.timeline.graph.copied,
            moving.timeline.copy_start_ns,
            moving.timeline.copy_end_ns,
            strict=True,
        ):
            assert sorted(zip(actions, starts_ns, ends_ns, strict=True)) == list(
                zip(found.actions, found.start_ns, found.end_ns, strict=True)
            )
            assert found.start_ns.min() >= 0
            assert found.end_ns.max() <= again.makespan_ns
    if again.memory is not None and again.memory.end_changes is not None:
        both = np.stack((again.memory.changes, again.memory.end_changes), axis=1)
        for rank, (first, last) in enumerate(pairwise(again.schedule.rank_starts)):
            held = np.cumsum(both[first:last].reshape(-1))
            most = again.memory.static_bytes[rank] + again.memory.working_bytes[rank] + held.max(initial=0)
            assert most == moving.peak_memory_bytes[rank]
            assert held.size == 0 or held[-1] == 0
