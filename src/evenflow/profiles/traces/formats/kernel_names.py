"""What a kernel, or an operator of the CPU, does by its name: computation, a collective, or an exchange of tokens."""

import re
from enum import IntEnum


class Doing(IntEnum):
    """What work on a device does."""

    COMPUTATION = 0
    COLLECTIVE = 1
    """Collectives, sends and receives that exchange no tokens between experts, as far as the name tells."""
    EXCHANGE = 2
    """Tokens go to their experts, or come back."""


_ALL_TO_ALL = re.compile(r"all_?to_?all|a2av?\b", re.IGNORECASE)
_DISPATCHER = re.compile(r"\b(?:\w+_)?ep::(?:\w+::)*(?:cached_)?(?:notify_)?(?:dispatch|combine)")
"""Kernels of DeepEP and of libraries made after it, such as ``deep_ep::internode::dispatch``; the layout of a dispatch
(``get_dispatch_layout``) is computed."""
_SEND_RECEIVE = re.compile(r"nccl\w*SendRecv", re.IGNORECASE)
"""What NCCL runs for an all-to-all, as for a send and receive."""


def kernel_doing(name: str, *, collective: object = None) -> Doing:
    """Return what a kernel does; `collective` is the collective that a trace names for it, if it is text.

    >>> kernel_doing("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)").name
    'EXCHANGE'
    >>> kernel_doing("ncclDevKernel_SendRecv", collective="send").name
    'COLLECTIVE'
    >>> kernel_doing("void deep_ep::internode::get_dispatch_layout<256, 32, 8>").name
    'COMPUTATION'
    """
    is_ours = "nccl" in name or "hcom" in name or "hccl" in name or "Hccl" in name
    if _DISPATCHER.search(name) or (is_ours and _ALL_TO_ALL.search(name)):
        return Doing.EXCHANGE
    if _SEND_RECEIVE.search(name):
        told = isinstance(collective, str)
        return Doing.EXCHANGE if not told or _ALL_TO_ALL.search(str(collective)) else Doing.COLLECTIVE
    return Doing.COLLECTIVE if is_ours else Doing.COMPUTATION


def operator_doing(name: str) -> Doing:
    """Return what an operator of the CPU does.

    Exchanges are not told apart: operators hold one another, so that what runs beside an exchange is not known.
    """
    return Doing.COLLECTIVE if name.startswith(("c10d::", "gloo:")) else Doing.COMPUTATION
