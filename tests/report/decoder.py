"""Reads a report's data as the page's script does, one number after the other: independent of what writes it."""

import base64
import json
import re
import zlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Page:
    head: dict[str, Any]
    columns: list[dict[str, list[int]]]
    """Numbers by column, for every timeline; signed ones already have their sign, and inputs are action indices."""
    plans: list[dict[str, Any]]


def element(html: str, name: str) -> str:
    found = re.search(rf'<script type="[a-z/]+" id="{name}">(.*?)</script>', html, re.DOTALL)
    assert found is not None, name
    return found[1]


def read_page(html: str) -> Page:
    head = json.loads(element(html, "evenflow-head"))
    data = zlib.decompress(base64.b64decode(element(html, "evenflow-data"), validate=True), wbits=-15)
    plans = [json.loads(element(html, f"evenflow-plan-{index}")) for index in range(html.count('id="evenflow-plan-'))]
    columns = []
    read = 0
    for timeline in head["timelines"]:
        found = {}
        for name, place in timeline["columns"].items():
            assert place["offset"] == read, "columns follow one another"
            read += place["bytes"]
            found[name] = numbers(data[place["offset"] : read])
        if "memory" in found:
            found["memory"] = [signed(value) for value in found["memory"]]
        found["input"] = [index - signed(value - 1) if value else -1 for index, value in enumerate(found["input"])]
        columns.append(found)
    assert read == len(data)
    return Page(head=head, columns=columns, plans=plans)


def numbers(data: bytes) -> list[int]:
    found, value, shift = [], 0, 0
    for byte in data:
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            found.append(value)
            value = shift = 0
    assert shift == 0, "no number is cut off"
    return found


def signed(value: int) -> int:
    return value // 2 if value % 2 == 0 else -(value + 1) // 2


def times(timeline: dict[str, Any], columns: dict[str, list[int]]) -> tuple[list[int], list[int], list[int]]:
    """Starts and ends of all actions, and where the last gap of every rank ends."""
    starts, ends, last = [], [], []
    for rank in range(timeline["ranks"]):
        now = 0
        for index in range(*timeline["rank_starts"][rank : rank + 2]):
            now += columns["gap_ns"][index]
            starts.append(now)
            now += columns["duration_ns"][index]
            ends.append(now)
        last.append(now + columns["gap_ns"][timeline["actions"] + rank])
    return starts, ends, last
