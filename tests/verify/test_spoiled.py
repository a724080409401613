"""A certificate that was spoiled anywhere is refused."""

import random
from collections.abc import Callable

import msgspec
import pytest

from evenflow.errors import InputError
from evenflow.verify import Certificate, CertificateError, Checker, read_certificate, verify
from tests.verify.certified import certificate, changed


def with_tree(change: Callable[[list], list]) -> Certificate:
    """The certificate whose first tree with a split has other nodes."""
    trees = list(certificate().evidence.trees)
    at = next(index for index, tree in enumerate(trees) if any(split for _drops, split in tree.nodes))
    trees[at] = msgspec.structs.replace(trees[at], nodes=change(list(trees[at].nodes)))
    return changed(trees=trees)


def with_types(**values: int) -> Certificate:
    """The certificate whose first layer costs something else."""
    first, *rest = certificate().types
    return changed(types=[msgspec.structs.replace(first, **values), *rest])


def with_rank(rank: int, **values: object) -> Certificate:
    ranks = list(certificate().ranks)
    ranks[rank] = msgspec.structs.replace(ranks[rank], **values)
    return changed(ranks=ranks)


def moved_layer() -> Certificate:
    layers = [list(row) for row in certificate().claim.layers]
    kind = layers[0].index(max(layers[0]))
    layers[0][kind] -= 1
    layers[1][kind] += 1
    return changed(layers=layers)


def swapped(rank: int, first: int) -> Certificate:
    order = certificate().ranks[rank].order.split(",")
    order[first], order[first + 1] = order[first + 1], order[first]
    return with_rank(rank, order=",".join(order))


def test_it_is_accepted_as_it_was_written():
    own = certificate()
    verify(own)
    verify(read_certificate(msgspec.json.encode(own), place="it"))
    assert own.claim.bound_ns >= own.claim.makespan_ns * (1 - 3e-6)
    assert len(own.evidence.trees) > 2


SPOILED: dict[str, Callable[[], Certificate]] = {
    "step": lambda: changed(makespan_ns=certificate().claim.makespan_ns + 1),
    "shorter step": lambda: changed(makespan_ns=certificate().claim.makespan_ns - 1),
    "bound above the plan": lambda: changed(bound_ns=certificate().claim.makespan_ns + 1),
    "peak": lambda: changed(peak_bytes=[peak - 1 for peak in certificate().claim.peak_bytes]),
    "a peak too few": lambda: changed(peak_bytes=certificate().claim.peak_bytes[1:]),
    "a layer moved": moved_layer,
    "a layer lost": lambda: changed(layers=[[0] * 2, *certificate().claim.layers[1:]]),
    "a stage lost": lambda: changed(layers=certificate().claim.layers[1:]),
    "a kind too many": lambda: changed(layers=[[*row, 0] for row in certificate().claim.layers]),
    "limit below the peak": lambda: with_rank(0, limit_bytes=certificate().claim.peak_bytes[0] - 1),
    "more memory, for which plans are shorter": lambda: changed(
        ranks=[msgspec.structs.replace(rank, limit_bytes=None) for rank in certificate().ranks]
    ),
    "forward": lambda: with_types(forward_ns=certificate().types[0].forward_ns + 1),
    "parameters": lambda: with_types(parameter_bytes=certificate().types[0].parameter_bytes + 1),
    "weight gradient longer than the backward": lambda: with_types(weight_ns=10**6),
    "kinds": lambda: with_types(kinds=[]),
    "constant": lambda: with_rank(1, constant_bytes=certificate().ranks[1].constant_bytes + 1),
    "network of a rank": lambda: with_rank(1, network=7),
    "an action lost": lambda: with_rank(0, order=certificate().ranks[0].order.rpartition(",")[0]),
    "an action twice": lambda: with_rank(0, order=certificate().ranks[0].order + ",0F0"),
    "no actions": lambda: with_rank(0, order=""),
    "an order that waits for ever": lambda: with_rank(
        0, order=",".join(reversed(certificate().ranks[0].order.split(",")))
    ),
    "messages": lambda: changed(messages_ns=[5] * 5),
    "too few messages": lambda: changed(messages_ns=[]),
    "fewer layers in a stage": lambda: changed(stage_layers=[(5, 9)] * 6),
    "kinds that no stage may have": lambda: changed(kind_sets=[[0]]),
    "sets of kinds": lambda: changed(kind_sets=[[1, 0]]),
    "denominator": lambda: changed(denominator=certificate().evidence.denominator - 1),
    "no denominator": lambda: changed(denominator=0),
    "a denominator too large": lambda: changed(denominator=2**50),
    "no paths": lambda: changed(paths=[]),
    "no mixtures": lambda: changed(mixtures=[]),
    "no trees": lambda: changed(trees=[]),
    "a tree lost": lambda: changed(trees=certificate().evidence.trees[:-1]),
    "the first node lost": lambda: with_tree(lambda nodes: nodes[1:]),
    "the last node lost": lambda: with_tree(lambda nodes: nodes[:-1]),
    "a node too many": lambda: with_tree(lambda nodes: [*nodes, ([], None)]),
    "no mixture in the leaves": lambda: with_tree(
        lambda nodes: [node if node[1] else ([], None) for node in nodes]
    ),
    "an unknown mixture": lambda: with_tree(lambda nodes: [([10**6], nodes[0][1]), *nodes[1:]]),
    "a split that is none": lambda: with_tree(lambda nodes: [(nodes[0][0], ("odd", 0, [1, 2])), *nodes[1:]]),
    "a split of a rank that is not there": lambda: with_tree(
        lambda nodes: [(nodes[0][0], ("cut", 10, [0, 2])), *nodes[1:]]
    ),
}  # fmt: skip


@pytest.mark.parametrize("spoil", SPOILED.values(), ids=SPOILED)
def test_what_was_spoiled_is_refused(spoil):
    with pytest.raises(CertificateError):
        verify(spoil())


def test_no_bound_above_the_shortest_plan_is_proven():
    """The plan of the certificate is shortest, up to the tolerance; its own bound is not looked at here."""
    with pytest.raises(CertificateError, match="plans are left"):
        Checker(changed(bound_ns=certificate().claim.makespan_ns + 1)).check_bound()


@pytest.mark.parametrize("seed", range(10))
def test_other_shares_of_a_mixture_are_refused_or_prove_less(seed):
    draw = random.Random(seed)
    mixtures = [list(own) for own in certificate().evidence.mixtures]
    own = draw.choice(mixtures)
    place = draw.randrange(len(own))
    own[place] = (own[place][0], own[place][1] + 1)
    with pytest.raises(CertificateError, match="add up"):
        verify(changed(mixtures=mixtures))


def leaves_the_order(number: int, spoiled: tuple[int, int, int, str]) -> bool:
    paths = certificate().evidence.paths
    try:
        Checker(changed(paths=[*paths[:number], spoiled, *paths[number + 1 :]])).mixtures()
    except CertificateError as error:
        return str(error) == f"path {number} leaves the order of work"
    return False


def test_most_paths_with_another_step_leave_the_order():
    spoiled = [
        leaves_the_order(number, (rank, at, length, f"{int(steps, 16) ^ (1 << step):x}"))
        for number, (rank, at, length, steps) in enumerate(certificate().evidence.paths[:10])
        for step in range(0, length, 3)
    ]
    assert sum(spoiled) > len(spoiled) / 2


@pytest.mark.parametrize("spoiled", [(99, 0, 0, "0"), (0, 9999, 0, "0"), (0, 0, 10**9, "0"), (0, 0, 0, "zebra")])
def test_a_path_from_nowhere_is_refused(spoiled):
    with pytest.raises(CertificateError, match="leaves the order of work"):
        verify(changed(paths=[spoiled, *certificate().evidence.paths[1:]]))


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
def test_numbers_are_whole_and_not_negative(value):
    fields = msgspec.to_builtins(certificate())
    fields["claim"]["bound_ns"] = value
    with pytest.raises(InputError, match="bound_ns"):
        read_certificate(msgspec.json.encode(fields), place="it")


def test_fields_that_it_does_not_know_are_refused():
    fields = msgspec.to_builtins(certificate()) | {"comment": 1}
    with pytest.raises(InputError, match="comment"):
        read_certificate(msgspec.json.encode(fields), place="it")
    fields = msgspec.to_builtins(certificate()) | {"format": "evenflow-certificate-2"}
    with pytest.raises(InputError, match="must be evenflow-certificate-1"):
        read_certificate(msgspec.json.encode(fields), place="it")
