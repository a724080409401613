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
    """Draw random numbers from `seed` inside the block; afterwards the generators go on as if nothing had happened."""
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        torch.manual_seed(seed)
        yield
