"""Random numbers that do not depend on how a model is split: each module and microbatch has its own seed."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

import torch


def seed_of(*parts: int | str) -> int:
    """Return a seed made of a run's seed and its purpose, the same on every rank.

    >>> seed_of(1, "dropout", 0) == seed_of(1, "dropout", 0) != seed_of(1, "dropout", 1)
    True
    """
    text = "/".join(map(str, parts)).encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big") >> 1


@contextmanager
def seeded(seed: int, device: torch.device) -> Iterator[None]:
    """Draw random numbers from `seed` inside the block; afterwards the generators go on as if nothing had happened.

    The generators of the CPU and of `device` alone are touched, by the host alone: this happens for every module and
    microbatch, and `torch.manual_seed` would go through all devices each time.
    """
    generators = [torch.default_generator]
    if device.type == "cuda":
        torch.cuda.init()
        index = torch.cuda.current_device() if device.index is None else device.index
        generators.append(torch.cuda.default_generators[index])
    before = [generator.get_state() for generator in generators]
    for generator in generators:
        generator.manual_seed(seed)
    try:
        yield
    finally:
        for generator, state in zip(generators, before, strict=True):
            generator.set_state(state)
