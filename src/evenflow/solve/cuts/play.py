"""The game of plans and paths of a part of a cut graph, which bounds its plans or yields one in time.

It is a matrix game. One player mixes plans, the other mixes paths through the dependency graph, and an entry is the
time of a path under a plan. The second player's best mixture is the relaxation that bounds all plans best
(Dantzig-Wolfe; Lagrangian duality). The plan that is shortest under a mixture of paths and the longest paths of that
plan join the game, which is mixed anew, until the bound exceeds the target or the game says that it cannot.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evenflow.schedule import NUM_OPS
from evenflow.simulate import Integers
from evenflow.simulate.compiled import compiled
from evenflow.solve.clock import spend
from evenflow.solve.cuts.cut_part import NOISE, WORTH_COPYING, CutPart
from evenflow.solve.master.critical_paths import CriticalPaths
from evenflow.solve.master.matrix import Floats

if TYPE_CHECKING:
    from evenflow.solve.cuts.cut_graph import CutGraph
    from evenflow.solve.cuts.game_kernel import Board, GameState, Scratch

_CLOSE = 1e-4
"""Fraction of the target: where bound and value of the game differ by less, splitting helps more than bounding."""
_TURNS = 10
"""Turns between two answers."""
_MOST_PATHS = 500
"""Paths of a game at most, beside those that it begins with."""
_TURN_SECONDS, _ARC_SECONDS, _ACTION_SECONDS = 3e-4, 1e-8, 5e-8
"""Work of a turn, beside that by the number of arcs and of actions."""


class Played(NamedTuple):
    """The end of a game: a refuter, a plan, or neither and what is known of the game."""

    best: Floats
    """Mixture that bounds best."""
    plans: Integers
    """Plans of the game, as arcs of the part's whole graph, shape [num_plans, num_steps]."""
    shares: Floats
    """Share of each in the best mixture of plans."""
    paths: Floats
    """Paths of the game, shape [num_paths, num_slots + 1]."""
    path_shares: Floats
    """Share of each in the best mixture of paths."""
    refuter: Floats | None = None
    """Mixture under which all plans exceed the target."""
    plan: Integers | None = None
    """Plan within the target."""


class Player:
    """Plays the games of one target, with the longest paths that `paths` measures."""

    def __init__(self, paths: CriticalPaths, classes: Integers, *, target_ns: int) -> None:
        """Prepare games of durations of these `classes` (see `CutGraph`)."""
        self._paths, self._slot_classes = paths, np.ascontiguousarray(classes)
        self._num_classes = NUM_OPS * (int(classes.max()) // NUM_OPS + 1)
        self._target_ns = target_ns
        self.keep_going: Callable[[], bool] = lambda: True
        """Games end when it says no."""

    def durations(self, graph: "CutGraph", plans: Integers) -> Floats:
        """Return the durations of plans given by their arcs, shape [..., num_slots]."""
        return graph.durations_ns[plans].reshape(*plans.shape[:-1], self._slot_classes.size)

    def longest(self, durations: Floats) -> Floats:
        """Return longest paths through each rank, shape [num_paths, num_slots + 1]."""
        table, classes = np.zeros(self._num_classes, dtype=np.int64), self._slot_classes.ravel()
        table[classes] = durations
        paths = self._paths.count_longest(table, above_ns=-1)
        return np.concatenate((paths.counts[:, classes], paths.messages_ns[:, np.newaxis]), axis=1).astype(np.float64)

    def play(
        self, part: CutPart, mixtures: Sequence[Floats], *, plans: Integers, paths: Floats, most_turns: int
    ) -> Played:
        """Play the game of a part, which loses arcs, with these plans and paths in it from the beginning.

        The `mixtures`, at least one of them, are tried first.
        """
        from evenflow.solve.cuts.game_kernel import GOES_ON, REFUTED, SHRUNK, WITHIN, play_turns

        begun = Played(mixtures[-1], plans, np.zeros(len(plans)), paths, np.zeros(len(paths)))
        for mixture in mixtures:
            if part.shortest(mixture) is None:
                return begun._replace(refuter=mixture)
        game = self._game(part, mixtures[-1], plans=plans, paths=paths, most_turns=most_turns)
        board, scratch = self._board(part), self._scratch(part)
        turns = 0
        while True:
            most = min(_TURNS, most_turns - turns)
            answer = compiled(play_turns)(
                board, game, scratch, float(self._target_ns), _CLOSE, NOISE, WORTH_COPYING, most
            )
            work = _TURN_SECONDS + len(board.arcs) * _ARC_SECONDS + len(board.classes) * _ACTION_SECONDS
            spend((int(game.numbers[2]) - turns) * work)
            turns = int(game.numbers[2])
            part.bound_ns = max(part.bound_ns, float(game.bound[0]))
            if answer == REFUTED:
                return begun._replace(refuter=game.mixture)
            if answer == WITHIN:
                return begun._replace(plan=game.plan_arcs[game.numbers[0] - 1])
            if answer == SHRUNK:
                part.keep(np.flatnonzero(board.alive))
                board, scratch = self._board(part), self._scratch(part)
            elif answer != GOES_ON:
                break
            if turns == most_turns or not self.keep_going():
                break
        num_plans, num_paths, _turns = game.numbers.tolist()
        return Played(
            game.best,
            game.plan_arcs[:num_plans],
            game.plan_shares[:num_plans],
            game.paths[:num_paths],
            game.path_shares[:num_paths],
        )

    def _board(self, part: CutPart) -> "Board":
        from evenflow.solve.cuts.game_kernel import Board

        graph = part.graph
        arcs = graph.starts, graph.sources, graph.targets, graph.durations_ns, part.arcs
        return Board(*arcs, np.zeros(len(graph), dtype=np.bool_), self._slot_classes, *self._paths.arrays)

    def _scratch(self, part: CutPart) -> "Scratch":
        from evenflow.solve.cuts.game_kernel import Scratch

        graph, ranks = part.graph, self._paths.arrays[0]
        states = len(graph.states), max(map(len, graph.states))
        positions, counts = len(ranks) + 1, (int(ranks.max()) + 1, self._num_classes)
        return Scratch(
            weights=np.zeros(self._slot_classes.shape),
            behind=np.empty(states),
            before=np.empty(states),
            lengths=np.empty(len(graph)),
            plan=np.zeros(len(self._slot_classes), dtype=np.int64),
            table=np.zeros(self._num_classes, dtype=np.int64),
            heads=np.zeros(positions, dtype=np.int64),
            tails=np.zeros(positions, dtype=np.int64),
            counts=np.zeros(counts, dtype=np.int64),
            message_counts=np.zeros(counts, dtype=np.int64),
            message_times=np.zeros(counts[0], dtype=np.int64),
        )

    def _game(self, part: CutPart, mixture: Floats, *, plans: Integers, paths: Floats, most_turns: int) -> "GameState":
        """Return a game with these plans and paths, and room for those of so many turns."""
        from evenflow.solve.cuts.game_kernel import GameState

        most_plans, most_paths, num_slots = len(plans) + most_turns, len(paths) + _MOST_PATHS, self._slot_classes.size
        game = GameState(
            plans=np.zeros((most_plans, num_slots)),
            plan_arcs=np.zeros((most_plans, len(self._slot_classes)), dtype=np.int64),
            paths=np.zeros((most_paths, num_slots + 1)),
            times=np.zeros((most_paths, most_plans)),
            plan_regrets=np.zeros(most_plans),
            path_regrets=np.zeros(most_paths),
            plan_shares=np.zeros(most_plans),
            path_shares=np.zeros(most_paths),
            mixture=mixture.copy(),
            best=mixture.copy(),
            mean=np.zeros(num_slots),
            numbers=np.array([len(plans), len(paths), 0]),
            bound=np.zeros(1),
        )
        game.plans[: len(plans)], game.plan_arcs[: len(plans)] = self.durations(part.whole, plans), plans
        game.paths[: len(paths)] = paths
        times_ns = paths[:, :-1] @ game.plans[: len(plans)].T + paths[:, -1:]
        game.times[: len(paths), : len(plans)] = times_ns / self._target_ns - 1
        return game
