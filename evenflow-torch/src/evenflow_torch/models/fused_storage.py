"""What waits for the backward where elementwise operators are fused: nothing between what kernels read and give.

    operator by operator   x -> in 32 bits -> squared, averaged -> scaled -> weighed -> product    keeps all of them
    fused                  x -> one kernel                                -> weighed -> product    keeps x, weighed

A result of elementwise operators that only such operators read is computed again from what they began with, as fused
norms and gated activations do, and compilers [PyTorch 2, doi:10.1145/3620665.3640366, §4.2]. What a product reads in a
longer format is kept in the shorter one.
"""

from collections.abc import Callable, Sequence

from evenflow_torch.models.live_storage import ExecutedOperator

_RANDOM = ("dropout", "bernoulli", "rand", "uniform", "normal_")
"""Parts of the names of operators whose results nobody can compute again."""


def fused_bytes(
    living: frozenset[int],
    forward: Sequence[ExecutedOperator],
    backward: Sequence[ExecutedOperator],
    size_bytes: Callable[[int], int],
) -> int:
    """Return the bytes that stay of the storages `living` after the forward, by what the operators read and write."""
    kernels = [operator for operator in (*forward, *backward) if not _is_fusible(operator)]
    read = frozenset().union(*(operator.reads for operator in kernels))
    makers = {number: operator for operator in forward for number in operator.writes}
    read -= {number for number, maker in makers.items() if _lengthens(maker)}
    kept = {number for number in living if number in read or number not in makers or not _is_fusible(makers[number])}
    for number in sorted(living - kept):
        begun_with = _beginnings(number, makers, kept)
        again = sum(map(size_bytes, begun_with)) <= size_bytes(number)
        kept |= begun_with if again else {number}
    return sum(map(size_bytes, kept))


def _is_fusible(operator: ExecutedOperator) -> bool:
    """Whether the operator has no matrix product, and nothing random in it."""
    return not operator.cost.flops and not any(word in operator.name for word in _RANDOM)


def _lengthens(operator: ExecutedOperator) -> bool:
    """Whether the operator copies numbers to a longer format."""
    sizes = operator.cost.tensor_bytes
    return "_to_copy" in operator.name and len(sizes) == 2 and sizes[1] > sizes[0]


def _beginnings(number: int, makers: dict[int, ExecutedOperator], kept: set[int]) -> set[int]:
    """Return what has to be kept beside `kept`, so that fusible operators can make a storage again."""
    begun_with: set[int] = set()
    seen, waiting = set(kept), [number]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        maker = makers.get(current)
        if maker is None or not _is_fusible(maker):
            begun_with.add(current)
        else:
            waiting += maker.reads
    return begun_with
