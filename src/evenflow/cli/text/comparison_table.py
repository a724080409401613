"""Several plans in one table."""

from collections.abc import Sequence

from evenflow.cli.shared.strategies import RECOMMENDED, Strategy
from evenflow.cli.text.tables import aligned
from evenflow.units import megabytes, milliseconds


def comparison_table(strategies: Sequence[Strategy], memory_limit_bytes: int | None) -> str:
    """A row a plan: makespan, how much longer than the recommended one, bubbles by cause, peak memory and the limit."""
    communicates = any(strategy.simulation.communication for strategy in strategies)
    has_memory = strategies[0].simulation.network.has_memory
    base_ns = next((each.simulation.makespan_ns for each in strategies if each.name == RECOMMENDED), None)
    header = ["plan", "step ms", "longer", "bubble", "ideal", "imbalance", "recompute"]
    header += ["p2p"] if communicates else []
    header += ["peak MB", "limit"] if has_memory else ["limit"]
    rows = []
    for strategy in strategies:
        simulation, bubbles = strategy.simulation, strategy.simulation.bubbles
        shares = [bubbles.real, bubbles.ideal, bubbles.imbalance, bubbles.recompute]
        shares += [bubbles.communication] if communicates else []
        rows.append(
            [
                strategy.name,
                f"{milliseconds(simulation.makespan_ns):,.3f}",
                f"{100 * (simulation.makespan_ns / base_ns - 1):+.2f} %" if base_ns else "",
                *(f"{round(share, 4) + 0.0:.4f}" for share in shares),
                *([f"{megabytes(max(simulation.peak_memory_bytes)):,.1f}"] if has_memory else []),
                _verdict(strategy, memory_limit_bytes),
            ]
        )
    return aligned(header, rows, left={0, len(header) - 1})


def _verdict(strategy: Strategy, memory_limit_bytes: int | None) -> str:
    if memory_limit_bytes is None:
        return "not checked"
    if strategy.simulation.fits(memory_limit_bytes):
        return "fits"
    over = sum(peak > memory_limit_bytes for peak in strategy.simulation.peak_memory_bytes)
    return f"OVER on {over} of {strategy.simulation.plan.num_ranks} ranks"
