"""What a kernel, or an operator of the CPU, does by its name: computation, a collective, or an exchange of tokens."""

import re
from enum import IntEnum
from functools import lru_cache


class Doing(IntEnum):
    """What work on a device does."""

    COMPUTATION = 0
    COLLECTIVE = 1
    """Collectives, sends and receives that exchange no tokens between experts, as far as the name tells."""
    EXCHANGE = 2
    """Tokens go to their experts, or come back."""
    MESSAGE = 3
    """What one rank sends another, as stages of a pipeline do."""
    SEND_RECEIVE = 4
    """NCCL's kernel for both of the above, where nothing tells which; it counts as an exchange."""
    FORWARD = 5
    """Computation that is of a forward by its name, as of attention or a norm."""
    BACKWARD = 6
    """Computation that is of a backward by its name."""


COMPUTING = (Doing.COMPUTATION, Doing.FORWARD, Doing.BACKWARD)
"""What is no communication."""


ALL_TO_ALL = re.compile(r"all_?to_?all|a2av?\b", re.IGNORECASE)
"""Names of all-to-alls."""
_DISPATCHER = re.compile(r"\b(?:\w+_)?ep::(?:\w+::)*(?:cached_)?(?:notify_)?(?:dispatch|combine)")
"""Kernels of DeepEP and of libraries made after it, such as ``deep_ep::internode::dispatch``; the layout of a dispatch
(``get_dispatch_layout``) is computed."""
_COLLECTIVE = re.compile("nccl|hcom|[hH]ccl")
_SEND_RECEIVE = re.compile(r"nccl\w*SendRecv", re.IGNORECASE)
"""What NCCL runs for an all-to-all, as for a send and receive."""
_FORWARD = re.compile(r"fwd|forward|fprop", re.IGNORECASE)
_BACKWARD = re.compile(r"bwd|backward|bprop|dgrad|wgrad", re.IGNORECASE)
_MESSAGE = re.compile(r"hcom_(?:send|receive|batchSendRecv)|Hccl(?:Send|Recv|BatchSendRecv)", re.IGNORECASE)
_CPU_MESSAGES = ("c10d::send", "c10d::recv_", "gloo:send", "gloo:recv")
_TOLD_MESSAGE = re.compile(r"send|recv|receive", re.IGNORECASE)
"""Names that PyTorch and HCCL give to messages between two ranks."""


@lru_cache(maxsize=2**14)
def kernel_doing(name: str, *, collective: str | None = None) -> Doing:
    """Return what a kernel does; `collective` is the one that a trace names for it. A trace has few names, often.

    >>> kernel_doing("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)").name
    'SEND_RECEIVE'
    >>> kernel_doing("ncclDevKernel_SendRecv", collective="send").name
    'MESSAGE'
    >>> kernel_doing("void deep_ep::internode::get_dispatch_layout<256, 32, 8>").name
    'COMPUTATION'
    """
    if _DISPATCHER.search(name):
        return Doing.EXCHANGE
    if not _COLLECTIVE.search(name):
        is_forward, is_backward = (pattern.search(name) is not None for pattern in (_FORWARD, _BACKWARD))
        if is_forward == is_backward:
            return Doing.COMPUTATION
        return Doing.FORWARD if is_forward else Doing.BACKWARD
    if _MESSAGE.search(name):
        return Doing.MESSAGE
    if collective is not None and not ALL_TO_ALL.search(collective):
        is_message = _TOLD_MESSAGE.search(collective) or _SEND_RECEIVE.search(name)
        return Doing.MESSAGE if is_message else Doing.COLLECTIVE
    if ALL_TO_ALL.search(name) or (collective is not None and _SEND_RECEIVE.search(name)):
        return Doing.EXCHANGE
    return Doing.SEND_RECEIVE if _SEND_RECEIVE.search(name) else Doing.COLLECTIVE


def operator_doing(name: str) -> Doing:
    """Return what an operator of the CPU does.

    Exchanges are not told apart: operators hold one another, so that what runs beside an exchange is not known.
    """
    if not name.startswith(("c10d::", "gloo:")):
        return Doing.COMPUTATION
    return Doing.MESSAGE if name in _CPU_MESSAGES else Doing.COLLECTIVE
