"""The options that say what a message between ranks costs."""

import math
from dataclasses import dataclass, field, replace

import click

from evenflow.asking import Metadata, asked, optional
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Communication, Network
from evenflow.ranges import BYTES_PER_S, MEGABYTES, TIME_NS, Range
from evenflow.units import MEGABYTE, parse_bandwidth, parse_memory, parse_time

_LATENCY, _BANDWIDTH, _BOUNDARY = "--p2p-latency", "--p2p-bandwidth", "--boundary"
_EXCLUSIVE = "--p2p-exclusive"
_OLD_SPELLINGS = {_LATENCY: "--p2p-latency-us", _BANDWIDTH: "--p2p-bandwidth-gbps", _BOUNDARY: "--boundary-mb"}

_OLD_RANGES = {
    _LATENCY: Range(least=0, most=TIME_NS.most / 1000, is_whole=False, unit="us"),
    _BANDWIDTH: Range(least=0, most=8 * BYTES_PER_S.most / 1e9, is_whole=False, is_above=True, unit="Gb/s"),
    _BOUNDARY: MEGABYTES,
}
"""The range of each option in the unit of its old spelling."""


def _old_spelling(option: str) -> Metadata:
    return asked(_OLD_RANGES[option], option=_OLD_SPELLINGS[option], is_hidden=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageOptions:
    """Latency, bandwidth and boundary as given, each in one of its two spellings."""

    boundary_mb: float | None = field(default=None, metadata=_old_spelling(_BOUNDARY))
    p2p_bandwidth_gbps: float | None = field(default=None, metadata=_old_spelling(_BANDWIDTH))
    p2p_latency_us: float | None = field(default=None, metadata=_old_spelling(_LATENCY))
    p2p_latency: str | None = optional(
        _LATENCY, metavar="TIME", help="Latency of a message between ranks, such as 500us."
    )
    p2p_bandwidth: str | None = optional(
        _BANDWIDTH,
        metavar="RATE",
        help=f"Bandwidth between ranks, such as 200Gbps or 25GBps; needs {_BOUNDARY}, "
        "unless the layer file has boundary_bytes.",
    )
    boundary: str | None = optional(
        _BOUNDARY,
        metavar="SIZE",
        help="Size of what one microbatch sends to the next stage, such as 64MB, behind layers without boundary_bytes.",
    )

    p2p_exclusive: bool = optional(
        _EXCLUSIVE,
        default=False,
        help="A rank sends one message at a time: the next one waits until its link is free.  [default: messages do "
        "not wait for each other]",
    )

    def communication(self, network: Network, *, sequence_splits: int = 1) -> Communication | None:
        """Return the cost of messages between the stages of `network`; None where nothing was given.

        ``transfer = boundary / bandwidth``; a part of a split sequence sends its share of the boundary. Layers may say
        the boundary themselves.

        Raises:
            InputError: a value that breaks a rule, both spellings of one option, bandwidth or boundary alone.
        """
        latency_ns, gigabits_per_s, boundary_bytes = self._latency_ns(), self._gigabits_per_s(), self._boundary_bytes()
        says_all = all(layer.boundary_bytes is not None for layer in network.layers[:-1])
        if (gigabits_per_s is None) != (boundary_bytes is None) and not (boundary_bytes is None and says_all):
            present, missing = (_BANDWIDTH, _BOUNDARY) if boundary_bytes is None else (_BOUNDARY, _BANDWIDTH)
            raise InputError(
                rule=_("must come with {missing}: the two together are the transfer time", missing=missing),
                place=self._spelling(present),
                remedy=_("add {missing}", missing=missing),
            )
        if latency_ns is None and gigabits_per_s is None:
            return None
        transfer_ns = 0.0
        if gigabits_per_s is not None and boundary_bytes is not None:
            # 10^9 bits a second are one bit a nanosecond.
            transfer_ns = 8 * boundary_bytes / sequence_splits / gigabits_per_s
        return Communication(
            latency_ns=latency_ns or 0,
            transfer_ns=math.ceil(transfer_ns),
            bytes_per_s=None
            if network.boundaries is None or gigabits_per_s is None
            else max(1, round(gigabits_per_s * 1e9 / 8)),
        )

    def communication_or(
        self, planned: Communication | None, network: Network, *, sequence_splits: int
    ) -> Communication | None:
        """Return the cost of messages, or the one `planned` for where none was given.

        Say where it leaves the sizes out that the layers say.

        Raises:
            InputError: as `communication` does; messages that are to wait for each other and keep no link busy.
        """
        communication = self.communication(network, sequence_splits=sequence_splits) or planned
        if network.boundaries is not None and (communication is None or communication.bytes_per_s is None):
            note = _("the boundary_bytes of the layers take no time without {option}", option=_BANDWIDTH)
            click.echo(_("note: {note}", note=note), err=True)
        if communication is None or (not communication.transfer_ns and communication.bytes_per_s is None):
            if self.p2p_exclusive:
                rule = _("must come with {option}: messages that take no time do not wait", option=_BANDWIDTH)
                raise InputError(rule=rule, place=_EXCLUSIVE, remedy=_("leave it out, or add the bandwidth"))
            return communication
        was_in_turn = planned is not None and planned.one_at_a_time
        return replace(communication, one_at_a_time=self.p2p_exclusive or was_in_turn)

    def _latency_ns(self) -> int | None:
        old = self._old(_LATENCY, self.p2p_latency_us, self.p2p_latency)
        if old is not None:
            return round(1000 * old)
        return None if self.p2p_latency is None else parse_time(self.p2p_latency, place=_LATENCY)

    def _gigabits_per_s(self) -> float | None:
        old = self._old(_BANDWIDTH, self.p2p_bandwidth_gbps, self.p2p_bandwidth)
        if old is not None:
            return old
        return None if self.p2p_bandwidth is None else 8 * parse_bandwidth(self.p2p_bandwidth, place=_BANDWIDTH) / 1e9

    def _boundary_bytes(self) -> float | None:
        old = self._old(_BOUNDARY, self.boundary_mb, self.boundary)
        if old is not None:
            return old * MEGABYTE
        return None if self.boundary is None else parse_memory(self.boundary, place=_BOUNDARY, needs_unit=True)

    def _old(self, option: str, value: float | None, new_value: str | None) -> float | None:
        """Return the number of an option's old spelling."""
        if value is None:
            return None
        place = _OLD_SPELLINGS[option]
        if new_value is not None:
            raise InputError(
                rule=_("must not be given beside {option}", option=option),
                place=place,
                remedy=_("leave one of the two out"),
            )
        _OLD_RANGES[option].check(value, place=place)
        return value

    def _spelling(self, option: str) -> str:
        old = {_BANDWIDTH: self.p2p_bandwidth_gbps, _BOUNDARY: self.boundary_mb}[option]
        return option if old is None else _OLD_SPELLINGS[option]
