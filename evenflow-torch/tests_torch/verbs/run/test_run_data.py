"""`evenflow run` on data: what is trained, checkpoints that other plans go on from, ranks that die, what is refused."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from evenflow.cli.main import main
from tests_torch.run.warm_ranks import start_warm
from tests_torch.verbs.run.run_plans import written

SMALL = ["--model", "llama-tiny", "--seq", "8", "--hidden", "16", "--heads", "2", "--vocab", "32", "--device", "cpu"]
EXACT = [*SMALL, "--dtype", "float64", "--lr", "0.01"]
ALONE = {"ranks": 1, "chunks": 1, "schedule": "1f1b", "layers": [[5]], "recompute": {}, "microbatches": 3}
DIES = "EVENFLOW_TEST_DIES"
"""Environment variable with a file that is there until a rank has died."""


def run(*options: object) -> Result:
    return CliRunner().invoke(main, ["run", *map(str, options)])


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens.npy"
    np.save(path, np.random.default_rng(1).integers(0, 32, 400).astype(np.uint16))
    return path


@pytest.mark.processes
def test_a_training_on_files_goes_on_in_another_plan(
    tmp_path: Path, tokens: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_warm(monkeypatch)
    data = ["--data", tokens, "--eval-data", tokens, "--eval-every", 4, "--steps", 7]
    first, last = written(tmp_path / "plan.json"), written(tmp_path / "alone.json", **ALONE)
    metrics, saved = tmp_path / "m.jsonl", tmp_path / "saved"
    whole = run(first, *EXACT, *data, "--save", saved, "--save-every", 4, "--metrics", metrics)
    assert whole.exit_code == 0, whole.output
    assert sorted(path.name for path in saved.iterdir()) == ["step-00000004", "step-00000007"]
    told = lines_of(metrics)
    assert [line["step"] for line in told] == list(range(1, 8))
    assert all(line["tokens_per_s"] > 0 and line["memory_mb"] > 0 for line in told)
    assert ["eval_loss" in line for line in told] == [False, False, False, True, False, False, False]
    assert "tokens/s" in whole.stdout
    assert "evaluated: loss" in whole.stdout

    again = run(last, *EXACT, *data, "--resume", saved / "step-00000004", "--metrics", metrics)
    assert again.exit_code == 0, again.output
    resumed = lines_of(metrics)[7:]
    assert [line["step"] for line in resumed] == [5, 6, 7]
    assert [line["loss"] for line in resumed] == pytest.approx([line["loss"] for line in told[4:]], rel=1e-11)


def documents() -> Iterator[list[int]]:
    """Documents for ever; while the file of the environment is there, rank 1 dies at the fortieth."""
    for number in range(10_000):
        if number == 40 and os.environ.get("RANK") == "1" and Path(os.environ[DIES]).exists():
            Path(os.environ[DIES]).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        yield [number % 32, *range(20)]


@pytest.mark.processes
def test_a_rank_that_dies_is_started_again_from_the_last_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    start_warm(monkeypatch)
    mark = tmp_path / "dies"
    mark.touch()
    monkeypatch.setenv(DIES, str(mark))
    plan, metrics = written(tmp_path / "plan.json"), tmp_path / "m.jsonl"
    data = ["--data", f"{__name__}:documents", "--steps", 40, "--save", tmp_path / "saved", "--save-every", 5]
    done = run(plan, *SMALL, *data, "--restarts", 1, "--metrics", metrics)
    assert done.exit_code == 0, done.output
    assert "rank 1 was ended by signal SIGKILL" in done.stderr
    assert "starting again behind step " in done.stderr
    steps = [line["step"] for line in lines_of(metrics)]
    assert steps[-1] == 40
    again = next(place for place, step in enumerate(steps[1:], 1) if step <= steps[place - 1])
    assert (steps[again] - 1) % 5 == 0, "it goes on behind a checkpoint"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--eval-every", "2"], "--eval-every must come with --eval-data"),
        (["--save-every", "2"], "--save-every must come with --save"),
        (["--restarts", "1"], "--restarts must come with --save"),
        (["--tokenizer", "x"], "--tokenizer must come with --data"),
        (["--restarts", "1", "--save", "{}/s", "--verify"], "--restarts must not be given with --verify"),
        (["--resume", "{}"], "--resume must be a folder that --save has written"),
        (["--data", "{}/none.npy"], "--data must be a file that can be read"),
        (["--data", "{}/short.npy"], "--data must have at least 9 tokens in a file"),
        (["--data", "{}/large.npy"], "must be token numbers below the vocabulary size (32)"),
        (["--data", "{}/two.npy"], "must be one row of integers"),
        (["--data", "{}/text.jsonl"], "text.jsonl:1 must come with a tokenizer for its text"),
        (["--data", "{}/odd.jsonl"], 'odd.jsonl:1 must have "text", or "tokens"'),
        (["--data", "{}/broken.jsonl"], "broken.jsonl:1 must be JSON"),
        (["--data", "what"], "--data must be a file .npy, .bin or .jsonl, or an import path"),
        (["--data", "json:nothing"], "--data must be importable"),
        (["--data", "{}/text.jsonl", "--data", "{}/short.npy"], "--data must be of one kind"),
        (["--save", "{}/saved"], "--save must be a folder without checkpoints of later steps"),
        (["--metrics", "{}/text.jsonl"], "--metrics must not exist, but where a training goes on"),
    ],
)
def test_what_cannot_be_read_or_written_is_refused(tmp_path: Path, options: list[str], message: str) -> None:
    (tmp_path / "saved" / "step-00000005").mkdir(parents=True)
    (tmp_path / "saved" / "step-00000005" / ".metadata").touch()
    np.save(tmp_path / "short.npy", np.arange(8))
    np.save(tmp_path / "large.npy", np.arange(60))
    np.save(tmp_path / "two.npy", np.zeros((20, 2), dtype=int))
    for name, line in (("text", '{"text": "words"}'), ("odd", '{"tokens": "a"}'), ("broken", "{")):
        (tmp_path / f"{name}.jsonl").write_text(line + "\n", encoding="utf-8")
    done = run(written(tmp_path / "plan.json"), *SMALL, *(option.format(tmp_path) for option in options))
    assert done.exit_code == 2, done.output
    assert message in " ".join(done.stderr.split())
