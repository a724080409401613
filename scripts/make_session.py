"""Draw a terminal session, from an installation to a plan in a training script, into docs/images/first_plan.svg.

Run it with ``make session``. The test replays it: every command must print what the picture shows.
"""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from click.testing import CliRunner

from evenflow.cli.main import main
from evenflow.draw.svg_elements import clean

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "first_plan.svg"
MODEL = ROOT / "examples" / "configs" / "llama3_8b.json"
SCRIPT = """torchrun --nproc-per-node 8 pretrain_gpt.py \\
    --num-layers 32 --hidden-size 4096 --num-attention-heads 32 \\
    --tensor-model-parallel-size 2 --pipeline-model-parallel-size 4 \\
    --micro-batch-size 1 --global-batch-size 32 --seq-length 8192
"""
COMMANDS = (
    "pip install evenflow",
    "cd llama3_8b",
    "evenflow plan config.json --accelerator h100 --tensor 2 --ranks 4 --chunks 2 --microbatches 32 --seq 8192 "
    "--target megatron --json plan.json --reproducible",
    "evenflow apply plan.json train.sh",
)
"""The first two are not replayed: the session begins with an installed evenflow, in a folder with model and script."""
_COLUMNS = 112
_LINE, _SIZE, _WIDTH, _MARGIN = 17, 13, 7.83, 16
"""Height of a line, of its characters, their width, and what is free around them, in pixels."""


def session() -> list[str]:
    """Return the lines of the session."""
    lines = [f"$ {command}" for command in COMMANDS[:2]]
    with TemporaryDirectory() as folder:
        place, before = Path(folder) / "llama3_8b", Path.cwd()
        place.mkdir()
        (place / "config.json").write_bytes(MODEL.read_bytes())
        (place / "train.sh").write_text(SCRIPT, encoding="utf-8")
        os.chdir(place)
        try:
            for command in COMMANDS[2:]:
                result = CliRunner().invoke(main, ["--lang", "en", *shlex.split(command)[1:]])
                assert result.exit_code == 0, result.output
                lines += [f"$ {command}", *result.stdout.rstrip().splitlines(), ""]
        finally:
            os.chdir(before)
    return [part for line in lines[:-1] for part in _wrapped(line)]


def _wrapped(line: str) -> Iterator[str]:
    """Yield a line as a terminal breaks it."""
    yield from (line[begin : begin + _COLUMNS] for begin in range(0, max(1, len(line)), _COLUMNS))


def picture(lines: list[str]) -> str:
    """Return the session as SVG."""
    width, height = round(2 * _MARGIN + _COLUMNS * _WIDTH), 2 * _MARGIN + _LINE * len(lines)
    rows = [
        f'<text x="{_MARGIN}" y="{_MARGIN + _LINE * number + _SIZE}"'
        f'{_color(line)} textLength="{len(line) * _WIDTH:.1f}" xml:space="preserve">{clean(line)}</text>'
        for number, line in enumerate(lines)
        if line
    ]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
            f'role="img" aria-label="A terminal session" font-family="ui-monospace, Menlo, Consolas, '
            f'\'DejaVu Sans Mono\', monospace" font-size="{_SIZE}" fill="#d8dee9">',
            f'<rect width="{width}" height="{height}" rx="8" fill="#161b22"/>',
            *rows,
            "</svg>\n",
        ]
    )


def _color(line: str) -> str:
    """Return the attribute of lines that stand out: commands, and the answer itself."""
    if line.startswith("$ "):
        return ' fill="#ffffff" font-weight="bold"'
    return ' fill="#7ee787"' if line.startswith(("step ", "optimal ", "fits: ", "exact: ", "+   ")) else ""


if __name__ == "__main__":
    PICTURE.write_text(picture(session()), encoding="utf-8")
