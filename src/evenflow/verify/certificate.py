"""The file of a certificate: what is claimed, of which problem, and the evidence; whole numbers throughout.

Solver and checker share this module and nothing else. Stages are counted along the network, and so are layers.
"""

from typing import Annotated

import msgspec

from evenflow.errors import InputError
from evenflow.language import _

FORMAT = "evenflow-certificate-1"
Amount = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
"""A time in ns, a size in bytes or a number of things."""


class CertificateError(Exception):
    """What a certificate claims is not so, or does not follow from its evidence; the message says where."""


class BlockCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What head or tail add to their stage, for each microbatch."""

    forward_ns: Amount
    backward_ns: Amount
    weight_ns: Amount
    """The part of the backward that computes weight gradients."""
    activation_bytes: Amount
    until_weight_bytes: Amount
    """Kept between input and weight gradient."""
    parameter_bytes: Amount
    working_bytes: Amount


class LayerCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What layers of one type cost."""

    forward_ns: Amount
    weight_ns: Amount
    until_weight_bytes: Amount
    parameter_bytes: Amount
    kinds: list[tuple[Amount, Amount, Amount]]
    """Backward in ns with recomputation, activation and working memory in bytes, under each recompute kind."""


class NetworkCosts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A network as fast as some of the ranks are."""

    layers: list[Amount]
    """Type of every layer."""
    head: BlockCosts
    tail: BlockCosts


class RankFacts(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One rank."""

    network: Amount
    """Which of the networks has its times."""
    constant_bytes: Amount
    """Held whatever its layers."""
    limit_bytes: Amount | None
    """The most that it may hold; null: anything."""
    order: str
    """Its actions in their order, as ``0F0,0F1,0B0``: stage, operation (F; B, or I and W), microbatch."""


class Claimed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the certificate claims."""

    layers: list[list[Amount]]
    """The plan: layers of every stage under each kind, in this order in the stage."""
    makespan_ns: Amount
    """What a step takes with it."""
    peak_bytes: list[Amount]
    """What every rank holds at most with it."""
    bound_ns: Amount
    """No plan takes less."""


class TreeOfCut(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Why no plan is shorter whose first chunk ends at `middle`."""

    middle: Amount
    nodes: list[tuple[list[Amount], tuple[str, Amount, list[int]] | None]]
    """Each node, then what is below its low side, then below the other one.

    A node names mixtures, then how the plans are split that they leave: null where they leave none.
    """


class BoundEvidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Why no plan is shorter than the bound."""

    paths: list[tuple[Amount, Amount, Amount, str]]
    """Rank and place of the last action, number of steps back, and these as hexadecimal digits, the first step in the
    lowest bit. 0: to the action before on the rank; 1: to the action whose result it needs."""
    denominator: Amount
    mixtures: list[list[tuple[Amount, Amount]]]
    """Paths with their shares, in parts of the denominator."""
    trees: list[TreeOfCut]


class Certificate(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A claim about the plans of one order of work, with its evidence."""

    format: str
    network: str
    """Its name."""
    schedule: str
    """The name of the order of work."""
    kinds: list[str]
    """Names of the recompute kinds, in the order of the layers of a stage."""
    kind_sets: list[list[Amount]]
    """Kinds that may share a stage: all of a stage are in one of these sets."""
    types: list[LayerCosts]
    networks: list[NetworkCosts]
    ranks: list[RankFacts]
    messages_ns: list[Amount]
    """Time of the message from each stage to the next one, and back; 0 where both are on one rank."""
    stage_layers: list[tuple[Amount, Amount]]
    """The fewest and the most layers that every stage may have."""
    claim: Claimed
    evidence: BoundEvidence
    written_by: str = ""
    """The mark that files of evenflow end with."""


def read_certificate(content: bytes, *, place: str) -> Certificate:
    """Return the certificate in a file of this content; raises InputError with `place` where it is none."""
    try:
        certificate = msgspec.json.decode(content, type=Certificate)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise InputError(
            value=str(error), rule=_("must be a certificate as evenflow plan --certificate writes it"), place=place
        ) from None
    if certificate.format != FORMAT:
        raise InputError(value=certificate.format, rule=_("must be {format}", format=FORMAT), place=f"{place}: format")
    return certificate
