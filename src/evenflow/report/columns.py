"""Numbers of all actions as bytes: columns of variable-length integers (LEB128), signed ones in zigzag."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from evenflow.report.shown import Integers, Shown

ENCODERS = ("encoders_forward", "encoders_backward")
"""Beginnings of the names of the columns of `Shown.encoders`."""
_BITS = 7
_LAST_PLACE = 8
"""Of the bytes of a number, counted from 0: 63 bits."""


def encoded(values: NDArray[np.integer[Any]]) -> bytes:
    """Return numbers, none negative, seven bits a byte, the lowest first; every byte but a number's last has bit 7.

    >>> encoded(np.array([0, 1, 127, 128, 300])).hex(" ")
    '00 01 7f 80 01 ac 02'
    """
    rest = np.array(values, dtype=np.uint64)
    width = max(1, -(-int(rest.max(initial=0)).bit_length() // _BITS))
    table = np.empty((len(rest), width), dtype=np.uint8)
    is_used = np.ones((len(rest), width), dtype=np.bool_)
    for place in range(width):
        table[:, place] = rest & np.uint64(0x7F)
        rest >>= np.uint64(_BITS)
        goes_on = rest > 0
        table[goes_on, place] |= 0x80
        is_used[:, place + 1 :] = goes_on[:, np.newaxis]
    return table[is_used].tobytes()


def decoded(data: bytes) -> Integers | None:
    """Return the numbers of which `data` is the code; None where it is cut off, or has a number of over 63 bits.

    >>> decoded(bytes.fromhex("00 01 7f 80 01 ac 02"))
    array([  0,   1, 127, 128, 300])
    """
    if not data:
        return np.zeros(0, dtype=np.int64)
    codes = np.frombuffer(data, dtype=np.uint8)
    is_last = codes < 2**_BITS
    if not is_last[-1]:
        return None
    firsts = np.concatenate(([0], np.flatnonzero(is_last)[:-1] + 1))
    number = np.cumsum(np.concatenate(([0], is_last[:-1])))
    places = np.arange(len(codes)) - firsts[number]
    if places.max() > _LAST_PLACE:
        return None
    parts = (codes & (2**_BITS - 1)).astype(np.int64) << (_BITS * places)
    return np.asarray(np.add.reduceat(parts, firsts))


def unzigzag(values: Integers) -> Integers:
    """Return the numbers of which `values` are the zigzag."""
    return np.asarray((values >> 1) ^ -(values & 1))


def zigzag(values: Integers) -> Integers:
    """Return 0, 1, 2, 3, 4 … for 0, -1, 1, -2, 2 …"""
    return np.asarray((values << 1) ^ (values >> 63))


def columns_of(shown: Shown) -> Mapping[str, bytes]:
    """Return the columns of a timeline by name.

    ::

        op, stage, unit   what an action is; unit is microbatch * splits + split
        gap_ns            idle time before it; then, for each rank, behind its last action
        duration_ns       time from its start to its end
        recompute_ns      part of that, at its beginning, that recomputes
        input             0: it waits for none; else 1 + zigzag of its own index less that of the other action
        message_ns        time that what it waits for travels
        memory            zigzag of the bytes that it takes or frees
        memory_at_end     the same at its end, where anything moves; then `memory` is that at its start
        fill, imbalance, recomputing   parts of gap_ns by cause; the rest is communication
        host_copies                    one more, where anything moves
        waiting           part of gap_ns in a measured step; the rest is communication
        pair              0: not the forward of a pair; else 1 + time that the pair saves
        to_host_of, from_host_of       actions whose activations leave or come back, each less the one before
        to_host_behind_ns              time from the end of such an action to the start of the copy
        from_host_ahead_ns             time from the end of the copy to the start of such an action
        to_host_ns, from_host_ns       time of the copy
        encoders_forward_rank, encoders_backward_rank   who does each part of encoders
        encoders_forward_unit, encoders_backward_unit   its microbatch
        encoders_forward_start_ns, encoders_backward_start_ns   zigzag of its start, negative before the pipeline begins
        encoders_forward_ns, encoders_backward_ns       its time

    Columns that a timeline does not have are left out.
    """
    schedule = shown.schedule
    own = np.arange(schedule.num_actions)
    columns = {
        "op": encoded(schedule.ops),
        "stage": encoded(schedule.stages),
        "unit": encoded(schedule.units),
        "gap_ns": encoded(shown.gaps_ns),
        "duration_ns": encoded(shown.end_ns - shown.start_ns),
        "recompute_ns": encoded(shown.recompute_ns),
        "input": encoded(np.where(shown.inputs < 0, 0, zigzag(own - shown.inputs) + 1)),
        "message_ns": encoded(shown.message_ns),
    }
    if shown.memory is not None:
        columns["memory"] = encoded(zigzag(shown.memory.changes))
        if shown.memory.end_changes is not None:
            columns["memory_at_end"] = encoded(zigzag(shown.memory.end_changes))
    if shown.causes is not None:
        columns |= {
            "fill": encoded(shown.causes.fill_drain_ns),
            "imbalance": encoded(shown.causes.imbalance_ns),
            "recomputing": encoded(shown.causes.recompute_ns),
        }
        if shown.copies is not None:
            columns["host_copies"] = encoded(shown.causes.host_copies_ns)
    if shown.waiting_ns is not None:
        columns["waiting"] = encoded(shown.waiting_ns)
    if shown.saved_ns is not None:
        columns["pair"] = encoded(shown.saved_ns + 1)
    if shown.copies is not None:
        leaving, returning = shown.copies
        columns |= {
            "to_host_of": encoded(np.diff(leaving.actions, prepend=0)),
            "to_host_behind_ns": encoded(leaving.start_ns - shown.end_ns[leaving.actions]),
            "to_host_ns": encoded(leaving.end_ns - leaving.start_ns),
            "from_host_of": encoded(np.diff(returning.actions, prepend=0)),
            "from_host_ahead_ns": encoded(shown.start_ns[returning.actions] - returning.end_ns),
            "from_host_ns": encoded(returning.end_ns - returning.start_ns),
        }
    for name, parts in zip(ENCODERS, shown.encoders, strict=False):  # forwards alone where nothing is trained
        columns |= {
            f"{name}_rank": encoded(parts.ranks),
            f"{name}_unit": encoded(parts.microbatches),
            f"{name}_start_ns": encoded(zigzag(parts.start_ns)),
            f"{name}_ns": encoded(parts.end_ns - parts.start_ns),
        }
    return columns
