"""Random stages for the comparison with the zero-bubble authors' own schedulers; the seed is fixed."""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from evenflow.model import NONE, Communication, Layer, LayerRun, Mode, Network, Plan

SEED = 20240118
COUNTS = {"zb": 72, "zbv": 48, "v-half": 31, "v-min": 31, "1f1b-v": 31}
"""Number of settings for each of the authors' schedulers."""
_ZB_LIMITS = (0.5, 0.75, 1.0, 1.0, 1.5, 2.0, 3.0)
_ZBV_LIMITS = (1.0, 1.0, 1.25, 1.5, 2.0)
"""Limits to draw from, in activations of a microbatch on a rank for each rank."""
_ACTIVATION_BYTES = 1200


@dataclass(frozen=True, kw_only=True)
class RandomSetting:
    """Stages of random times under a memory limit, for one of the authors' schedulers."""

    scheduler: str
    number: int
    num_ranks: int
    num_microbatches: int
    forward_ns: tuple[int, ...]
    """Time of each stage; with two chunks the stages run along the V."""
    gradient_ns: tuple[int, ...]
    weight_ns: tuple[int, ...]
    message_ns: int
    until_weight_bytes: int
    """Bytes of the activation that a stage holds until its weight gradient; all hold `activation_bytes` until then."""
    limit_factor: float | None
    """Memory limit in activations of a rank for each rank; None: the peak of the authors' order."""

    @property
    def activation_bytes(self) -> int:
        """Bytes of one microbatch on one stage."""
        return _ACTIVATION_BYTES

    @property
    def num_chunks(self) -> int:
        """Chunks of a rank: two on a V, or one."""
        return len(self.forward_ns) // self.num_ranks

    @property
    def is_even(self) -> bool:
        """Whether all stages take equally long."""
        return all(len(set(times)) == 1 for times in (self.forward_ns, self.gradient_ns, self.weight_ns))

    @property
    def limit_bytes(self) -> int | None:
        """Bytes that a rank may hold; None: the peak of the authors' order."""
        if self.limit_factor is None:
            return None
        return int(self.limit_factor * self.num_ranks) * self.num_chunks * self.activation_bytes

    @property
    def communication(self) -> Communication:
        """Messages between ranks."""
        return Communication(latency_ns=self.message_ns)

    @cached_property
    def network(self) -> Network:
        """A layer for every stage."""
        layers = [
            Layer(
                name=f"stage {stage}",
                forward_ns=forward,
                parameter_bytes=0,
                modes={NONE: Mode(activation_bytes=self.activation_bytes, backward_ns=gradient + weight)},
                stated_weight_ns=weight,
                stated_until_weight_bytes=self.until_weight_bytes,
            )
            for stage, (forward, gradient, weight) in enumerate(
                zip(self.forward_ns, self.gradient_ns, self.weight_ns, strict=True)
            )
        ]
        runs = tuple(LayerRun(layer=layer, count=1) for layer in layers)
        return Network(name=f"{self.scheduler} {self.number}", runs=runs)

    def plan(self, schedule: str) -> Plan:
        """Return the plan with a layer on every stage."""
        return Plan(
            schedule=schedule,
            num_microbatches=self.num_microbatches,
            layers=((1,) * self.num_ranks,) * self.num_chunks,
        )


def random_settings() -> Iterator[RandomSetting]:
    """Yield all settings; they are the same in every run."""
    for scheduler, count in COUNTS.items():
        draw = random.Random(f"{SEED} {scheduler}")
        for number in range(count):
            yield _draw(scheduler, number, draw)


def _draw(scheduler: str, number: int, draw: random.Random) -> RandomSetting:
    num_ranks = draw.choice((2, 3, 4, 4, 5, 6, 8, 8, 10, 12, 16))
    num_microbatches = draw.randint(num_ranks, 4 * num_ranks)
    mean_ns = [draw.randint(500, 2000) for _ in range(3)]
    num_stages = num_ranks if scheduler == "zb" else 2 * num_ranks
    spread = draw.choice((0.0, 0.0, 0.1, 0.3) if scheduler == "zb" else (0.0, 0.0, 0.0, 0.1))
    times = [tuple(round(mean * draw.uniform(1 - spread, 1 + spread)) for _ in range(num_stages)) for mean in mean_ns]
    return RandomSetting(
        scheduler=scheduler,
        number=number,
        num_ranks=num_ranks,
        num_microbatches=num_microbatches,
        forward_ns=times[0],
        gradient_ns=times[1],
        weight_ns=times[2],
        message_ns=draw.choice((0, 0, draw.randint(20, 400))),
        until_weight_bytes=draw.choice((300, 600, 900, 1200)),
        limit_factor=_limit(scheduler, draw),
    )


def _limit(scheduler: str, draw: random.Random) -> float | None:
    if scheduler in ("zb", "zbv"):
        return draw.choice(_ZB_LIMITS if scheduler == "zb" else _ZBV_LIMITS)
    return None
