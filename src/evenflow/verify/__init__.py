"""Certificates: the file, and the check of one by itself.

Nothing here knows the planner: `certificate` is the format, which the planner writes, and the other modules count
everything anew from it, in whole numbers.
"""

from evenflow.verify.certificate import (
    FORMAT,
    BlockCosts,
    BoundEvidence,
    Certificate,
    CertificateError,
    Claimed,
    LayerCosts,
    NetworkCosts,
    RankFacts,
    TreeOfCut,
    read_certificate,
)
from evenflow.verify.check import Checker, verify
from evenflow.verify.graph import ContentGraph
from evenflow.verify.order import OrderOfWork

__all__ = [
    "FORMAT",
    "BlockCosts",
    "BoundEvidence",
    "Certificate",
    "CertificateError",
    "Checker",
    "Claimed",
    "ContentGraph",
    "LayerCosts",
    "NetworkCosts",
    "OrderOfWork",
    "RankFacts",
    "TreeOfCut",
    "read_certificate",
    "verify",
]
