"""An order of work as a graph of actions: whether it is complete, how long it takes, and its paths."""

import re
from itertools import pairwise, product

import numpy as np
from numpy.typing import NDArray

from evenflow.language import _
from evenflow.verify.certificate import Certificate, CertificateError

F, B, I, W = range(4)  # noqa: E741  the field's names
Table = NDArray[np.int64]
Action = tuple[int, int, int]
"""Stage, operation and microbatch."""
_TOKEN = re.compile(r"(\d{1,9})([FBIW])(\d{1,9})")


class OrderOfWork:
    """The orders of all ranks, checked: every stage of every microbatch is there once, and nothing waits for ever."""

    def __init__(self, certificate: Certificate) -> None:
        """Read the orders; raises CertificateError where they are not complete."""
        self.orders = [_actions(rank.order, at) for at, rank in enumerate(certificate.ranks)]
        self.places = {action: (rank, at) for rank, own in enumerate(self.orders) for at, action in enumerate(own)}
        self.num_stages, self.messages_ns = len(certificate.stage_layers), certificate.messages_ns
        self.num_units = 1 + max(unit for _stage, _op, unit in self.places)
        stages_of = [{stage for stage, _op, _unit in own} for own in self.orders]
        self.ranks = [rank for stage in range(self.num_stages) for rank, own in enumerate(stages_of) if stage in own]
        """Rank of every stage."""
        if sum(map(len, stages_of)) != len(self.ranks) or len(self.ranks) != self.num_stages:
            raise CertificateError(_("order: every stage must be on one rank"))
        within = [first == second for first, second in pairwise(self.ranks)]
        if len(within) != len(self.messages_ns) or any(map(int.__and__, within, map(bool, self.messages_ns))):
            raise CertificateError(_("messages_ns: there must be one between stages, and none within a rank"))
        for stage, unit in product(range(self.num_stages), range(self.num_units)):
            if [op for op in (F, B, I, W) if (stage, op, unit) in self.places] not in ([F, B], [F, I, W]):
                message = _("order: stage {stage} of microbatch {unit} must run once", stage=stage, unit=unit)
                raise CertificateError(message)
        if sum(map(len, self.orders)) != len(self.places):
            raise CertificateError(_("order: an action is there twice"))
        self.makespan_ns(np.zeros((self.num_stages, 4), dtype=np.int64))

    def needed(self, action: Action) -> tuple[Action | None, int]:
        """Return the action whose result an action needs (None: none), and the time of the message."""
        stage, op, unit = action
        if op == W:
            return (stage, I, unit), 0
        if op == F:
            return ((stage - 1, F, unit), self.messages_ns[stage - 1]) if stage else (None, 0)
        if stage == self.num_stages - 1:
            return (stage, F, unit), 0
        behind = (stage + 1, B, unit)
        return (behind if behind in self.places else (stage + 1, I, unit)), self.messages_ns[stage]

    def makespan_ns(self, durations: Table) -> int:
        """Return how long a step takes with these durations [num_stages, 4]; raises CertificateError if it is stuck."""
        times, ends = durations.tolist(), dict[Action, int]()
        nexts, free, known = [0] * len(self.orders), [0] * len(self.orders), -1
        while known < len(ends):
            known = len(ends)
            for rank, own in enumerate(self.orders):
                for action in own[nexts[rank] :]:
                    needed, message = self.needed(action)
                    if needed is not None and needed not in ends:
                        break
                    ready = 0 if needed is None else ends[needed] + message
                    free[rank] = ends[action] = max(free[rank], ready) + times[action[0]][action[1]]
                    nexts[rank] += 1
        if len(ends) < len(self.places):
            raise CertificateError(_("order: ranks wait for each other for ever"))
        return max(free)

    def live(self, rank: int, stages: list[int]) -> Table:
        """Return what a rank holds after each of its actions, without repeats, shape [num_times, 2 * num_stages].

        Activations of each of its `stages`, then what waits for their weight gradients, in microbatches.
        """
        changes = {F: (1, 0), B: (-1, 0), I: (-1, 1), W: (0, -1)}
        steps = np.zeros((len(self.orders[rank]), 2 * len(stages)), dtype=np.int64)
        for at, (stage, op, _unit) in enumerate(self.orders[rank]):
            steps[at, stages.index(stage) :: len(stages)] = changes[op]
        return np.unique(np.cumsum(steps, axis=0), axis=0)

    def path(self, rank: int, at: int, length: int, steps: str) -> tuple[Table, int]:
        """Return how often a path has each duration [num_stages, 4], and the time of its messages.

        Raises CertificateError where there is no such path.
        """
        counts, messages_ns, bits = np.zeros((self.num_stages, 4), dtype=np.int64), 0, int(steps, 16)
        action = self.orders[rank][at]
        for step in range(length + 1):
            counts[action[0], action[1]] += 1
            if step == length:
                break
            rank, at = self.places[action]
            before = self.orders[rank][at - 1] if at else None, 0
            needed, message = self.needed(action) if bits >> step & 1 else before
            if needed is None:
                raise CertificateError(_("it leaves the order of work"))
            action, messages_ns = needed, messages_ns + message
        return counts, messages_ns


def _actions(text: str, rank: int) -> list[Action]:
    matches = [_TOKEN.fullmatch(token) for token in text.split(",")]
    if not all(matches):
        raise CertificateError(_("order of rank {rank}: must be actions such as 0F0", rank=rank))
    return [(int(match[1]), "FBIW".index(match[2]), int(match[3])) for match in matches if match]
