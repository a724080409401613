"""A certificate that was spoiled anywhere is refused."""

import random
from collections.abc import Callable

import msgspec
import pytest

from evenflow.errors import InputError
from evenflow.verify import Certificate, CertificateError, Checker, read_certificate, verify
from tests.verify.certified import CHUNKS, certificate, changed


def with_tree(own: Certificate, change: Callable[[list], list]) -> Certificate:
    """The certificate whose first tree with a split has other nodes."""
    trees = list(own.evidence.trees)
    at = next(index for index, tree in enumerate(trees) if any(split for _drops, split in tree.nodes))
    trees[at] = msgspec.structs.replace(trees[at], nodes=change(list(trees[at].nodes)))
    return changed(own, trees=trees)


def with_types(own: Certificate, **values: int) -> Certificate:
    """The certificate whose first layer costs something else."""
    first, *rest = own.types
    return changed(own, types=[msgspec.structs.replace(first, **values), *rest])


def with_rank(own: Certificate, rank: int, **values: object) -> Certificate:
    ranks = list(own.ranks)
    ranks[rank] = msgspec.structs.replace(ranks[rank], **values)
    return changed(own, ranks=ranks)


def moved_layer(own: Certificate) -> Certificate:
    layers = [list(row) for row in own.claim.layers]
    kind = layers[0].index(max(layers[0]))
    layers[0][kind] -= 1
    layers[1][kind] += 1
    return changed(own, layers=layers)


@pytest.fixture(params=CHUNKS, ids="{} chunks".format)
def own(request: pytest.FixtureRequest) -> Certificate:
    return certificate(request.param)


def test_it_is_accepted_as_it_was_written(own):
    verify(own)
    verify(read_certificate(msgspec.json.encode(own), place="it"))
    assert own.claim.bound_ns >= own.claim.makespan_ns * (1 - 3e-6)
    assert any(split for tree in own.evidence.trees for _drops, split in tree.nodes)


SPOILED: dict[str, Callable[[Certificate], Certificate]] = {
    "step": lambda own: changed(own, makespan_ns=own.claim.makespan_ns + 1),
    "shorter step": lambda own: changed(own, makespan_ns=own.claim.makespan_ns - 1),
    "bound above the plan": lambda own: changed(own, bound_ns=own.claim.makespan_ns + 1),
    "peak": lambda own: changed(own, peak_bytes=[peak - 1 for peak in own.claim.peak_bytes]),
    "a peak too few": lambda own: changed(own, peak_bytes=own.claim.peak_bytes[1:]),
    "a layer moved": moved_layer,
    "a layer lost": lambda own: changed(own, layers=[[0] * 2, *own.claim.layers[1:]]),
    "a stage lost": lambda own: changed(own, layers=own.claim.layers[1:]),
    "a kind too many": lambda own: changed(own, layers=[[*row, 0] for row in own.claim.layers]),
    "limit below the peak": lambda own: with_rank(own, 0, limit_bytes=own.claim.peak_bytes[0] - 1),
    "more memory, for which plans are shorter": lambda own: changed(
        own, ranks=[msgspec.structs.replace(rank, limit_bytes=None) for rank in own.ranks]
    ),
    "forward": lambda own: with_types(own, forward_ns=own.types[0].forward_ns + 1),
    "parameters": lambda own: with_types(own, parameter_bytes=own.types[0].parameter_bytes + 1),
    "weight gradient longer than the backward": lambda own: with_types(own, weight_ns=10**6),
    "kinds": lambda own: with_types(own, kinds=[]),
    "constant": lambda own: with_rank(own, 1, constant_bytes=own.ranks[1].constant_bytes + 1),
    "network of a rank": lambda own: with_rank(own, 1, network=7),
    "an action lost": lambda own: with_rank(own, 0, order=own.ranks[0].order.rpartition(",")[0]),
    "an action twice": lambda own: with_rank(own, 0, order=own.ranks[0].order + ",0F0"),
    "no actions": lambda own: with_rank(own, 0, order=""),
    "an order that waits for ever": lambda own: with_rank(
        own, 0, order=",".join(reversed(own.ranks[0].order.split(",")))
    ),
    "messages": lambda own: changed(own, messages_ns=[5] * len(own.messages_ns)),
    "too few messages": lambda own: changed(own, messages_ns=[]),
    "fewer layers in a stage": lambda own: changed(own, stage_layers=[(5, 9)] * len(own.stage_layers)),
    "kinds that no stage may have": lambda own: changed(own, kind_sets=[[0]]),
    "sets of kinds": lambda own: changed(own, kind_sets=[[1, 0]]),
    "denominator": lambda own: changed(own, denominator=own.evidence.denominator - 1),
    "no denominator": lambda own: changed(own, denominator=0),
    "a denominator too large": lambda own: changed(own, denominator=2**50),
    "no paths": lambda own: changed(own, paths=[]),
    "no mixtures": lambda own: changed(own, mixtures=[]),
    "no trees": lambda own: changed(own, trees=[]),
    "a tree lost": lambda own: changed(own, trees=own.evidence.trees[:-1]),
    "the first node lost": lambda own: with_tree(own, lambda nodes: nodes[1:]),
    "the last node lost": lambda own: with_tree(own, lambda nodes: nodes[:-1]),
    "a node too many": lambda own: with_tree(own, lambda nodes: [*nodes, ([], None)]),
    "no mixture in the leaves": lambda own: with_tree(
        own, lambda nodes: [node if node[1] else ([], None) for node in nodes]
    ),
    "an unknown mixture": lambda own: with_tree(own, lambda nodes: [([10**6], nodes[0][1]), *nodes[1:]]),
    "a split that is none": lambda own: with_tree(own, lambda nodes: [(nodes[0][0], ("odd", 0, [1, 2])), *nodes[1:]]),
    "a split of a rank that is not there": lambda own: with_tree(
        own, lambda nodes: [(nodes[0][0], ("cut", 10, [0, 2])), *nodes[1:]]
    ),
}  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_what_was_spoiled_is_refused(own, spoil):
    with pytest.raises(CertificateError):
        verify(spoil(own))


def test_no_bound_above_the_shortest_plan_is_proven(own):
    """The plan of the certificate is shortest, up to the tolerance; its own bound is not looked at here."""
    with pytest.raises(CertificateError, match="plans are left"):
        Checker(changed(own, bound_ns=own.claim.makespan_ns + 1)).check_bound()


@pytest.mark.parametrize("seed", range(10))
def test_other_shares_of_a_mixture_are_refused_or_prove_less(own, seed):
    draw = random.Random(seed)
    mixtures = [list(shares) for shares in own.evidence.mixtures]
    shares = draw.choice(mixtures)
    place = draw.randrange(len(shares))
    shares[place] = (shares[place][0], shares[place][1] + 1)
    with pytest.raises(CertificateError, match="add up"):
        verify(changed(own, mixtures=mixtures))


def leaves_the_order(own: Certificate, number: int, spoiled: tuple[int, int, int, str]) -> bool:
    paths = own.evidence.paths
    try:
        Checker(changed(own, paths=[*paths[:number], spoiled, *paths[number + 1 :]])).mixtures()
    except CertificateError as error:
        return str(error) == f"path {number} leaves the order of work"
    return False


def test_most_paths_with_another_step_leave_the_order(own):
    spoiled = [
        leaves_the_order(own, number, (rank, at, length, f"{int(steps, 16) ^ (1 << step):x}"))
        for number, (rank, at, length, steps) in enumerate(own.evidence.paths[:10])
        for step in range(0, length, 3)
    ]
    assert sum(spoiled) > len(spoiled) / 2


@pytest.mark.parametrize("spoiled", [(99, 0, 0, "0"), (0, 9999, 0, "0"), (0, 0, 10**9, "0"), (0, 0, 0, "zebra")])
def test_a_path_from_nowhere_is_refused(own, spoiled):
    with pytest.raises(CertificateError, match="leaves the order of work"):
        verify(changed(own, paths=[spoiled, *own.evidence.paths[1:]]))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b"{",
        b"\xff\xfe",
        msgspec.json.encode({"format": "evenflow-certificate-1"}),
        b"null",
        b"1" * 5000,
    ],
)
def test_what_is_no_certificate_is_bad_input(content):
    with pytest.raises(InputError, match="certificate"):
        read_certificate(content, place="it")


@pytest.mark.parametrize("value", [-1, 1.5, "x", None, 2**53 + 1, True])
def test_numbers_are_whole_and_not_negative(own, value):
    fields = msgspec.to_builtins(own)
    fields["claim"]["bound_ns"] = value
    with pytest.raises(InputError, match="bound_ns"):
        read_certificate(msgspec.json.encode(fields), place="it")


def test_fields_that_it_does_not_know_are_refused(own):
    fields = msgspec.to_builtins(own) | {"comment": 1}
    with pytest.raises(InputError, match="comment"):
        read_certificate(msgspec.json.encode(fields), place="it")
    fields = msgspec.to_builtins(own) | {"format": "evenflow-certificate-2"}
    with pytest.raises(InputError, match="must be evenflow-certificate-1"):
        read_certificate(msgspec.json.encode(fields), place="it")
