"""Scores of predictions as aligned tables."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from benchmarks.published.flops import is_launch_bound
from benchmarks.published.guesses import HALF, Guess, by_source, memory_errors, time_errors
from benchmarks.published.ranking import Ranking, rank, ranking_groups
from benchmarks.published.scores import Error, Score, score
from benchmarks.table import aligned

ALONE = "vtrain-single"
"""The source that has half of all rows, and is never averaged with others."""
SMALL_HIDDEN = 2048
"""Memory of narrower models is mostly overhead: their errors are apart, and those of goldens in GiB as well."""
_ALL_BUT = f"all but {ALONE}"
_GOLDEN = "megatron-golden"
_NARROW = f", hidden < {SMALL_HIDDEN}"
_Parts = Iterable[tuple[str, list[Guess]]]


def _known(points: int) -> str:
    return "half" if points == HALF else str(points)


def time_table(guesses: Mapping[int, Sequence[Guess]]) -> str:
    """Return the errors of steps: by source, with 0, 1, 3, half … measured runs of the source known, and over all."""
    header = ["step time", "runs known", "rows", "MAPE %", "median %", "bias %", "worst %", "worst row"]
    scores = _scores(guesses, _time_parts, time_errors, overall=_ALL_BUT, is_counted=_is_not_alone)
    rows = [[name, _known(points), *_columns(found)] for name, points, found in scores]
    return aligned(header, rows)


def summary_table(guesses: Mapping[int, Sequence[Guess]]) -> str:
    """Return mean errors of every source, with names only and after half of its runs, and the regret of its ranking."""
    names_only, half = dict(by_source(guesses.get(0, ()))), dict(by_source(guesses.get(HALF, ())))
    rows = []
    for name, of in names_only.items():
        regrets = [ranking.regret for ranking in rankings(of)]
        regret = f"{100 * sum(regrets) / len(regrets):.1f}" if regrets else "-"
        generations = sorted({str(guess.run.hardware).partition("-")[0] for guess in of})
        steps, memory = ([_mean(errors(known)) for known in (of, half.get(name, []))]
                         for errors in (time_errors, memory_errors))  # fmt: skip
        rows.append([name, " ".join(generations), *steps, *memory, regret])
    header = ["mean errors %", "on", "steps", "half known", "memory", "half known", "regret"]
    return aligned(header, rows)


def _mean(errors: Sequence[Error]) -> str:
    found = score(errors)
    return f"{100 * found.mape:.1f}" if found else "-"


def memory_table(guesses: Mapping[int, Sequence[Guess]]) -> str:
    """Return the errors of peak memory by source and rank that was measured, and predictions that are too low."""
    header = ["peak memory", "runs known", "rows", "MAPE %", "median %", "bias %", "worst %", "worst row"]
    header += ["too low", "lowest %", "lowest row"]
    wide = f"all, hidden >= {SMALL_HIDDEN}"
    scores = _scores(guesses, _memory_parts, memory_errors, overall=wide, is_counted=lambda one: not _is_narrow(one))
    rows = [
        [name, _known(points), *_columns(found), str(found.too_low), _percent(found.lowest), found.lowest_id or "-"]
        for name, points, found in scores
    ]
    return aligned(header, rows)


def small_memory_table(guesses: Mapping[int, Sequence[Guess]]) -> str:
    """Return the errors in GiB of goldens of narrow models; empty where there are none."""
    rows = []
    for points, every in guesses.items():
        small = [guess for guess in every if guess.run.source == _GOLDEN and _is_narrow(guess)]
        found = score(memory_errors(small), absolute=True)
        if found:
            cells = [f"{value:+.2f}" for value in (found.bias, found.worst)]
            rows.append([_GOLDEN, _known(points), str(found.count), f"{found.mape:.2f}", *cells, found.worst_id])
    header = [f"hidden < {SMALL_HIDDEN}", "runs known", "rows", "mean GiB", "bias GiB", "worst GiB", "worst row"]
    return aligned(header, rows) if rows else ""


def ranking_table(guesses: Mapping[int, Sequence[Guess]]) -> str:
    """Return how well configurations of one model were ranked: by source, and over all but the source that is alone."""
    rows = []
    for points, every in guesses.items():
        parts = [(name, rankings(of)) for name, of in by_source(every)]
        parts.append((_ALL_BUT, rankings(filter(_is_not_alone, every))))
        rows += [[name, _known(points), *_ranking_columns(of)] for name, of in parts if of]
    header = ["ranking", "runs known", "groups", "mean tau", "mean regret %", "worst regret %", "worst group"]
    return aligned(header, rows)


def rankings(guesses: Iterable[Guess]) -> list[Ranking]:
    """Return how every group of configurations was ranked."""
    predicted = {guess.run: guess.predicted.step_s for guess in guesses}
    found = []
    for name, group in ranking_groups(predicted).items():
        pairs = [(run, step_s) for run in group if (step_s := predicted[run]) is not None]
        ranking = rank(name, pairs)
        if ranking:
            found.append(ranking)
    return found


def refusals(guesses: Iterable[Guess]) -> str:
    """Return the runs for which nothing was predicted, and why, one on a line; empty where there are none."""
    return "\n".join(f"{guess.run.id}: {guess.refusal}" for guess in guesses if guess.refusal)


def assumption_table(guesses: Iterable[Guess]) -> str:
    """Return what is assumed in the runs of each file, in how many of them and why."""
    rows = Counter(
        (Path(guess.file).stem, each.field, str(each.value), each.reason)
        for guess in guesses
        for each in guess.run.assumed
    )
    header = ["not stated", "rows", "field", "taken", "because"]
    return aligned(header, [[file, str(count), *rest] for (file, *rest), count in rows.items()])


def _scores(
    guesses: Mapping[int, Sequence[Guess]],
    parts: Callable[[str, list[Guess], int], _Parts],
    errors: Callable[[Iterable[Guess]], list[Error]],
    *,
    overall: str,
    is_counted: Callable[[Guess], bool],
) -> list[tuple[str, int, Score]]:
    """Return name, known runs and score of every part that has any errors, then of the runs that are counted in all."""
    found = []
    for points, every in guesses.items():
        named = [part for name, of in by_source(every) for part in parts(name, of, points)]
        named.append((overall, [guess for guess in every if is_counted(guess)]))
        found += [(name, points, score(errors(of))) for name, of in named]
    return [(name, points, each) for name, points, each in found if each]


def _time_parts(name: str, guesses: list[Guess], points: int) -> _Parts:
    """Return a source without runs that wait for launches, the same by what is stated, and the runs that wait."""
    guesses = [guess for guess in guesses if guess.time]
    waiting = [guess for guess in guesses if is_launch_bound(guess.run)]
    busy = [guess for guess in guesses if not is_launch_bound(guess.run)]
    yield name, busy
    whole = [guess for guess in busy if not guess.run.assumed]
    if not points and 0 < len(whole) < len(busy):
        yield f"{name}, all stated", whole
        yield f"{name}, something assumed", [guess for guess in busy if guess.run.assumed]
    yield f"{name}, waiting for launches", waiting


def _memory_parts(name: str, guesses: list[Guess], points: int) -> _Parts:
    """Return a source by the rank that was measured, narrow models apart."""
    parts: dict[str, list[Guess]] = {}
    for guess in guesses:
        if guess.memory:
            rank_name = guess.run.mem_rank or "rank not stated"
            parts.setdefault(f"{name}, {rank_name}{_NARROW if _is_narrow(guess) else ''}", []).append(guess)
    yield from parts.items()


def _is_not_alone(guess: Guess) -> bool:
    return guess.run.source != ALONE


def _is_narrow(guess: Guess) -> bool:
    return (guess.run.hidden or 0) < SMALL_HIDDEN


def _columns(found: Score) -> list[str]:
    sizes = [f"{100 * value:.1f}" for value in (found.mape, found.median)]
    return [str(found.count), *sizes, _percent(found.bias), _percent(found.worst), found.worst_id]


def _ranking_columns(of: Sequence[Ranking]) -> list[str]:
    worst = max(of, key=lambda ranking: ranking.regret)
    known = [ranking.tau for ranking in of if ranking.tau is not None]
    mean = sum(ranking.regret for ranking in of) / len(of)
    tau = f"{sum(known) / len(known):.2f}" if known else "-"
    return [str(len(of)), tau, f"{100 * mean:.1f}", f"{100 * worst.regret:.1f}", worst.name]


def _percent(value: float) -> str:
    return f"{100 * value:+.1f}"
