"""Draw a result and write the picture."""

from collections.abc import Sequence
from pathlib import Path

from evenflow.cli.shared.output_files import write_text
from evenflow.cli.shared.strategies import Strategy
from evenflow.draw.compare import comparison_svg
from evenflow.draw.svg import timeline_svg


def write_picture(strategy: Strategy, path: Path, *, memory_limit_bytes: int | None, option: str) -> None:
    """Timeline and memory of one plan."""
    text = timeline_svg(
        strategy.simulation,
        memory_limit_bytes=memory_limit_bytes,
        title=f"{strategy.simulation.network.name}, {strategy.name}",
        certificate=strategy.certificate,
    )
    write_text(path, text, option=option)


def write_comparison(
    strategies: Sequence[Strategy], path: Path, *, memory_limit_bytes: int | None, option: str
) -> None:
    """All plans on one time axis."""
    pairs = [(strategy.name, strategy.simulation) for strategy in strategies]
    write_text(path, comparison_svg(pairs, memory_limit_bytes=memory_limit_bytes), option=option)
