"""Small problems with two and three chunks and a limit that binds, and their certificates."""

from functools import cache

import msgspec

from evenflow.model import FULL, NONE, EndBlock, Layer, LayerRun, Mode, Network, Request, Sizes
from evenflow.solve.certificate.certify import certify
from evenflow.solve.clock import Clock
from evenflow.solve.problem import Problem, make_problem
from evenflow.solve.race import Race
from evenflow.verify import Certificate

LIMIT = 1_500


def _layer(forward: int, backward: int, kept: int) -> Layer:
    modes = {
        NONE: Mode(activation_bytes=kept, backward_ns=backward),
        FULL: Mode(activation_bytes=kept // 8, backward_ns=backward + forward),
    }
    return Layer(name=f"layer {forward}", forward_ns=forward, parameter_bytes=20, modes=modes)


CHUNKS = 2, 3


def problem(schedule: str = "interleaved", *, num_chunks: int = 2) -> Problem:
    """Nine layers, all different; with three chunks, where plans are not told by their layers, eleven equal ones."""
    layers = [_layer(400 + 37 * index, 900 - 23 * index, 60 + 11 * (index % 3)) for index in range(9)]
    if num_chunks > 2:
        layers = [_layer(500, 800, 66)] * 11
    network = Network(
        name="small",
        runs=tuple(LayerRun(layer=layer, count=1) for layer in layers),
        head=EndBlock(forward_ns=150, backward_ns=300, parameter_bytes=90),
        tail=EndBlock(forward_ns=350, backward_ns=600, parameter_bytes=80),
        constant_bytes=100,
    )
    request = Request(
        network=network, sizes=Sizes(num_ranks=3, num_chunks=num_chunks, num_microbatches=6), memory_limit_bytes=LIMIT
    )
    return make_problem(request, schedule=schedule)


@cache
def certificate(num_chunks: int) -> Certificate:
    own = problem(num_chunks=num_chunks)
    plan = Race(own).run(Clock(limit_s=20.0)).plan
    assert plan is not None
    made = certify(own, own.counts(plan), seconds=60.0)
    assert made is not None
    return made


def changed(own: Certificate, **parts: object) -> Certificate:
    """A certificate with other values of fields, also of those inside of `claim` and `evidence`."""
    for name in ("claim", "evidence"):
        inner = {key: parts.pop(key) for key in list(parts) if hasattr(getattr(own, name), key)}
        if inner:
            own = msgspec.structs.replace(own, **{name: msgspec.structs.replace(getattr(own, name), **inner)})
    return msgspec.structs.replace(own, **parts)
