"""The check of a certificate: the plan is what it says, and the evidence proves the bound."""

from typing import NamedTuple

import numpy as np

from evenflow.language import _
from evenflow.verify.certificate import Certificate, CertificateError, TreeOfCut
from evenflow.verify.contents import Costs, times_of
from evenflow.verify.graph import FAR, ContentGraph, ContentGraphs
from evenflow.verify.order import OrderOfWork, Table


class PathMixture(NamedTuple):
    """A mixture of paths, in parts of the denominator."""

    weights: Table
    """Weight of every duration, [num_steps, 4 * num_chunks]."""
    messages_ns: int


def verify(certificate: Certificate) -> None:
    """Check a whole certificate; raises CertificateError where it is wrong."""
    try:
        checker = Checker(certificate)
        checker.check_plan()
        checker.check_bound()
    except (IndexError, KeyError, ValueError, OverflowError):
        raise CertificateError(_("its parts do not go together")) from None


class Checker:
    """The check of one certificate."""

    def __init__(self, certificate: Certificate) -> None:
        """Read order and costs; raises CertificateError where they cannot be."""
        self.certificate, self.claim = certificate, certificate.claim
        self.order = OrderOfWork(certificate)
        self.costs = Costs(certificate, self.order)
        if not self.is_exact(certificate.evidence.denominator):
            raise CertificateError(_("numbers are too large for exact sums"))
        self.graphs = ContentGraphs(certificate, self.order, self.costs, self.claim.bound_ns)

    def is_exact(self, denominator: int) -> bool:
        """Return whether no sum can leave 64 bits with shares in so many parts."""
        blocks = [block for own in self.certificate.networks for block in (own.head, own.tail)]
        times = [0, *(own.forward_ns + max(own.kinds)[0] for own in self.certificate.types)]
        ends = [0, *(own.forward_ns + own.backward_ns for own in blocks)]
        sizes = [getattr(own, name) for own in [*self.certificate.types, *blocks] for name in own.__struct_fields__]
        sizes = [0, *(size for size in sizes if isinstance(size, int))]
        sizes += [max(kind[1:]) for own in self.certificate.types for kind in own.kinds]
        step = self.order.num_units * (self.costs.num_layers * max(times) + 2 * max(ends))
        step += len(self.order.places) * max([0, *self.certificate.messages_ns])
        held = 4 * max(map(len, self.order.orders)) * (self.costs.num_layers + 2) * max(sizes)
        limits = [rank.constant_bytes + (rank.limit_bytes or 0) for rank in self.certificate.ranks]
        return max(4 * denominator * max(step, self.claim.bound_ns), held, *limits) < FAR // 4 and denominator > 0

    def check_plan(self) -> None:
        """Check what is said of the plan."""
        claim, rows = self.claim, self.costs.of_plan(self.claim.layers)
        makespan_ns = self.order.makespan_ns(times_of(rows))
        if makespan_ns != claim.makespan_ns:
            raise CertificateError(
                _("claim: the plan takes {right:,} ns, not {wrong:,}", right=makespan_ns, wrong=claim.makespan_ns)
            )
        peaks = [self.costs.peak_bytes(rank, rows) for rank in range(len(self.certificate.ranks))]
        for rank, (right, wrong) in enumerate(zip(peaks, claim.peak_bytes, strict=True)):
            if right != wrong:
                message = _("claim: rank {rank} holds {right:,} bytes at most, not {wrong:,}",
                            rank=rank, right=right, wrong=wrong)  # fmt: skip
                raise CertificateError(message)
            limit = self.certificate.ranks[rank].limit_bytes
            if limit is not None and right > limit:
                raise CertificateError(_("claim: the plan does not fit on rank {rank}", rank=rank))
        if claim.bound_ns > makespan_ns:
            raise CertificateError(_("claim: the bound is above the time of the plan"))

    def check_bound(self) -> None:
        """Check that no plan takes less than the bound."""
        mixtures = self.mixtures()
        trees = {tree.middle: tree for tree in self.certificate.evidence.trees}
        for middle in self.graphs.middles:
            graph = self.graphs.graph(middle)
            try:
                if len(graph.sources):
                    self._check_tree(graph, trees.get(middle), mixtures)
            except CertificateError as error:
                raise CertificateError(_("cut at {middle}: {error}", middle=middle, error=error)) from None

    def mixtures(self) -> list[PathMixture]:
        """Return the mixtures, with their paths checked; raises CertificateError."""
        evidence, stages, paths, result = self.certificate.evidence, self.graphs.stages, [], []
        for number, path in enumerate(evidence.paths):
            try:
                counts, messages_ns = self.order.path(*path)
            except (CertificateError, LookupError, ValueError):
                raise CertificateError(_("path {number} leaves the order of work", number=number)) from None
            paths.append((counts[stages].reshape(len(stages), -1), messages_ns))
        for number, shares in enumerate(evidence.mixtures):
            if sum(share for _path, share in shares) != evidence.denominator:
                raise CertificateError(_("mixture {number}: its shares must add up to the denominator", number=number))
            weights = np.sum([share * paths[path][0] for path, share in shares], axis=0)
            result.append(PathMixture(weights, sum(share * paths[path][1] for path, share in shares)))
        return result

    def left(self, graph: ContentGraph, mixture: PathMixture) -> ContentGraph:
        """Return the arcs of plans that may take less than the bound under a mixture."""
        most = (self.claim.bound_ns - 1) * self.certificate.evidence.denominator - mixture.messages_ns
        return graph.keep(graph.within(mixture.weights, most))

    def _check_tree(self, graph: ContentGraph, tree: TreeOfCut | None, mixtures: list[PathMixture]) -> None:
        """Check that a tree leaves no plan of a graph."""
        open_parts = [graph]
        for number, (drops, split) in enumerate([] if tree is None else tree.nodes):
            if not open_parts:
                raise CertificateError(_("node {number} is one too many", number=number))
            part = open_parts.pop()
            for mixture in drops:
                part = self.left(part, mixtures[mixture])
            if split is not None:
                kind, step, values = split
                sides = part.split(kind, step, values)
                if not sides:
                    raise CertificateError(_("node {number}: there is no such split", number=number))
                open_parts += [side.connected() for side in reversed(sides)]
            elif len(part.sources):
                raise CertificateError(_("node {number}: plans are left that may be shorter", number=number))
        if open_parts:
            raise CertificateError(_("evidence is missing"))
