"""What is tried: for every reader, a mutated file under a command that reads it; for every verb, odd options."""

import argparse
import json
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import click

from evenflow.cli.main import VERBS, Verbs, main
from evenflow.ranges import SECONDS
from tests.fuzz import seeds
from tests.fuzz.mutate import JSON, LINED, TOML, YAML, mutated
from tests.fuzz.nasty import NUMBERS, TEXTS
from tests.paths import EXAMPLES

SAPP = "run_pipeline_balance.py"
"""First word of a command line of the compatible command."""
FAST = ("--time-limit", "0.05")
TIME_LIMITS = {"--time-limit", "--time_limit", "-t"}
MOST_PATIENCE = 1.0
"""Seconds of the longest time limit: a search that is given a million may well take them."""


@dataclass(frozen=True, slots=True)
class Command:
    """One process that might be started: its arguments and its standard input."""

    reader: str
    arguments: tuple[str, ...]
    stdin: bytes = b""


@dataclass(frozen=True, slots=True)
class Reader:
    """A file that is mutated, and the commands that read it."""

    name: str
    file: str
    form: str
    seed: Callable[[], Any]
    commands: tuple[tuple[str, ...], ...]
    weight: float = 1.0


def _plan(*rest: str) -> tuple[str, ...]:
    return ("plan", "in.json", "--ranks", "2", "--microbatches", "4", "--memory", "1GB", *FAST, *rest)


def _predict(*rest: str) -> tuple[str, ...]:
    return ("predict", *rest, "--gpus", "8", "--tensor", "2", "--pipeline", "2", "--global-batch", "8", "--seq", "64")


READERS: tuple[Reader, ...] = (
    Reader(
        "layer file", "in.json", JSON, lambda: seeds.LAYERS,
        (
            ("simulate", "in.json", "--ranks", "2", "--microbatches", "4", "--memory", "1GB", "--json", "out.json", "--svg", "out.svg"),
            ("simulate", "in.json", "--ranks", "2", "--microbatches", "2", "--schedule", "zb-h1"),
            _plan(), _plan("--schedule", "zb-h1"), _plan("--sequence-splits", "2"),
            (SAPP, "-m", "in", "-lf", ".", "-s", "2", "-mb", "4", "-t", "0.05", "-naive", "1", "-dump", "1"),
            ("quick-tune", "in.json", "--ranks", "2", "--microbatches", "4", "--memory", "1GB", *FAST),
            ("compare", "in.json", "--ranks", "2", "--microbatches", "4", "--memory", "1GB", *FAST),
        ),
        3.0,
    ),
    Reader("layer file on standard input", "-", JSON, lambda: seeds.LAYERS, (("simulate", "-", "--ranks", "2", "--microbatches", "2"),), 0.3),
    Reader(
        "plan file", "in.json", JSON, lambda: seeds.PLAN,
        (
            ("simulate", "layers.json", "in.json", "--memory", "1GB", "--json", "out.json", "--svg", "out.svg"),
            ("replan", "in.json", "--rank-speed", "1:0.5", *FAST),
            ("memory-curve", "in.json", "--memory", "1GB", "--html", "out.html", *FAST),
            ("simulate", "in.json", "layers.json"), ("run", "in.json", "--model", "llama-tiny"),
            ("export", "in.json", "--to", "mindformers", "--layers", "layers.json", *FAST),
            ("export", "in.json", "--to", "megatron", "--layers", "layers.json", *FAST),
        ),
        2.0,
    ),
    Reader(
        "plan file with its model", "in.json", JSON, lambda: seeds.WHOLE_PLAN,
        (
            ("simulate", "in.json", "--json", "out.json", "--html", "out.html"), ("report", "in.json", "-o", "out.html"),
            ("export", "in.json", "--to", "torchtitan", "-o", "out", *FAST),
            ("export", "in.json", "--to", "deepspeed", "--over-limit", "--json", "out.json", *FAST),
            ("apply", "in.json", "train.yaml", *FAST),
        ),
        2.0,
    ),
    Reader(
        "report", "in.html", LINED, seeds.report,
        (("simulate", "in.html", "--html", "out.html"), ("report", "in.html", "-o", "out.html"), ("simulate", "in.html#2"), ("export", "in.html", "--to", "megatron", *FAST)),
        2.0,
    ),
    Reader("timeline of a run", "in.json", JSON, lambda: seeds.TIMELINE, (("report", "in.json", "whole.json", "-o", "out.html"),), 1.5),
    Reader("measured step", "in.json", JSON, lambda: seeds.STEP, (("report", "in.json", "whole.json", "-o", "out.html"), ("report", "whole.json", "in.json", "-o", "out.html")), 2.0),
    Reader("certificate", "in.json", JSON, seeds.certificate, (("verify", "in.json", "--json", "out.json"), ("verify", "in.json")), 2.0),
    Reader("measured step on standard input", "-", JSON, lambda: seeds.STEP, (("report", "-", "-o", "out.html"),), 0.3),
    Reader("dump of Primus", "pp_data/pp_rank_1.json", JSON, lambda: seeds.primus(1), (("report", "pp_data", "-o", "out.html"), ("report", "pp_data/config.json", "-o", "out.html")), 2.0),
    Reader("sizes in a dump of Primus", "pp_data/config.json", JSON, lambda: seeds.PRIMUS_CONFIG, (("report", "pp_data", "-o", "out.html"),)),
    Reader("Kineto trace of actions", "traces/in.json", JSON, seeds.actions, (("report", "traces", "-o", "out.html"), ("report", "whole.json", "traces/in.json", "-o", "out.html")), 2.0),
    Reader("order in a plan file", "in.json", JSON, lambda: seeds.ORDERED_PLAN, (("simulate", "layers.json", "in.json"),)),
    Reader(
        "mesh plan file", "in.json", JSON, lambda: seeds.MESH_PLAN,
        (("run", "in.json", "--model", "config.json"), ("simulate", "in.json", "layers.json")), 1.5,
    ),
    Reader("model of a run", "in.json", JSON, lambda: seeds.CONFIG, (("run", "plan.json", "--model", "in.json"),), 0.7),
    Reader("order as text", "in.csv", LINED, lambda: seeds.ORDER, (("schedule", "check", "in.csv", "--json", "out.json", "--svg", "out.svg"),), 2.0),
    Reader("order as job lists", "in.json", JSON, lambda: seeds.JOBS, (("schedule", "check", "in.json"),)),
    Reader("order on standard input", "-", LINED, lambda: seeds.ORDER, (("schedule", "check", "-"),), 0.3),
    Reader(
        "init file", "in.yaml", YAML, lambda: seeds.INIT,
        (("fit-memory", "in.yaml", "--json", "out.json", "--layer-file", "out-layers.json"), (SAPP, "-init", "in.yaml", "-m", "made", "-lf", "made", "-exec", "0")),
        4.0,
    ),
    Reader("init file with timelines", "in.yaml", YAML, lambda: seeds.INIT_PROFILED, (("fit-memory", "in.yaml", "--layer-file", "out-layers.json"),)),
    Reader(
        "manual file", "in.yaml", YAML, lambda: seeds.MANUAL,
        (
            ("compare", "layers.json", "--ranks", "2", "--microbatches", "4", "--manual", "in.yaml", "--output-folder", "out", *FAST),
            (SAPP, "-m", "layers", "-lf", ".", "-s", "2", "-mb", "4", "-exec", "0", "-manual", "in.yaml"),
        ),
        3.0,
    ),
    Reader("cluster file as YAML", "in.yaml", YAML, lambda: seeds.CLUSTER, (("auto", "--model", "none.json", "--cluster", "in.yaml", "--microbatches", "2"),), 2.0),
    Reader("accelerator file as YAML", "in.yaml", YAML, lambda: seeds.ACCELERATOR, (("auto", "--model", "none.json", "--cluster", "cluster.yaml", "--accelerator", "in.yaml", "--microbatches", "2"),), 2.0),
    Reader("accelerator file as JSON", "in.json", JSON, lambda: seeds.ACCELERATOR, (("auto", "--model", "none.json", "--cluster", "cluster.yaml", "--accelerator", "in.json", "--microbatches", "2"),)),
    Reader("plan of a person as YAML", "in.yaml", YAML, lambda: seeds.OWN_PLAN, (("auto", "--model", "none.json", "--cluster", "cluster.yaml", "--microbatches", "2", "--evaluate", "in.yaml"),), 2.0),
    Reader("cluster file as JSON", "in.json", JSON, lambda: seeds.CLUSTER, (("auto", "--model", "none.json", "--cluster", "in.json", "--microbatches", "2"),)),
    Reader(
        "training YAML", "in.yaml", YAML, lambda: seeds.TRAINING,
        (
            (*("plan", "layers.json", "--ranks", "2", "--microbatches", "4"), *FAST, "--apply", "in.yaml"),
            ("guide", "--ranks", "4", "--layers", "6", "--recompute", "full", "--apply", "in.yaml"),
            ("apply", "whole.json", "in.yaml", "--to", "mindformers"), ("apply", "whole.json", "in.yaml", "--to", "mindformers", "--in-place"),
            ("compare", "layers.json", "--ranks", "2", "--microbatches", "4", "--baseline", "in.yaml", "--baseline-of", "mindformers", *FAST),
        ),
        4.0,
    ),
    Reader(
        "configuration of PyNative mode", "in.yaml", YAML, lambda: seeds.PYNATIVE,
        (
            ("apply", "whole.json", "in.yaml", "--to", "mindformers-pynative", *FAST),
            ("compare", "layers.json", "--microbatches", "4", "--baseline", "in.yaml", "--baseline-of", "mindformers-pynative", *FAST),
        ),
    ),
    Reader(
        "settings as TOML", "in.toml", TOML, lambda: seeds.SETTINGS,
        (
            ("apply", "whole.json", "in.toml", "--over-limit", *FAST), ("apply", "whole.json", "in.toml", "--to", "torchtitan", "--over-limit", "--in-place", *FAST),
            ("compare", "layers.json", "--baseline", "in.toml", *FAST), ("compare", "layers.json", "--baseline", "in.toml", "--baseline-of", "torchtitan", *FAST),
        ),
        2.0,
    ),
    Reader(
        "training script", "in.sh", LINED, lambda: seeds.SCRIPT,
        (
            ("apply", "whole.json", "in.sh", *FAST), ("apply", "whole.json", "in.sh", "--to", "megatron", "--in-place", *FAST),
            ("compare", "layers.json", "--baseline", "in.sh", *FAST),
            ("compare", "layers.json", "--baseline", "in.sh", "--baseline-of", "megatron", "--microbatches", "4", *FAST),
            (*("plan", "layers.json", "--ranks", "2", "--microbatches", "4"), *FAST, "--apply", "in.sh"),
        ),
        3.0,
    ),
    Reader("logs of dry runs", "in.log", LINED, lambda: seeds.LOG, (("collect-peaks", "in.log", "--json", "out.json"),)),
    Reader("log in a folder", "runs/stage_0_rank_0/m.log", LINED, lambda: seeds.LOG, (("collect-peaks", "runs"), ("collect-peaks", "runs", "--used"))),
    Reader("logs of Megatron-LM", "in.log", LINED, lambda: seeds.MEGATRON, (("collect-peaks", "in.log", "--ranks-per-stage", "2"),)),
    Reader("logs on standard input", "-", LINED, lambda: seeds.LOG, (("collect-peaks", "-"),), 0.3),
    Reader("Kineto trace", "traces/in.json", JSON, seeds.kineto, (("read-trace", "traces", "--layers", "2", "--microbatches", "4", "--head", "E", "--body", "L", "--tail", "T", "--json", "out.json", "--layer-file", "out-layers.json"),), 2.0),
    Reader("Kineto trace of a device", "traces/in.json", JSON, seeds.kineto_cuda, (("read-trace", "traces", "--layers", "2", "--microbatches", "4", "--head", "E", "--body", "L", "--tail", "T"),), 1.5),
    Reader("Ascend trace", "traces/in.json", JSON, lambda: seeds.ascend(EXAMPLES / "timelines" / "llama2_175b" / "trace_view7.json"), (("read-trace", "traces", "--layers", "96", "--microbatches", "8"),), 1.5),
    Reader(
        "model of a prediction", "in.json", JSON, lambda: seeds.CONFIG,
        (_predict("--model", "in.json", "--accelerator", "h100", "-o", "out-layers.json", "--json", "out.json"),), 2.0,
    ),
    Reader(
        "experts of a prediction", "in.json", JSON, lambda: seeds.EXPERTS_CONFIG,
        (_predict("--model", "in.json", "--accelerator", "b200", "--expert", "2", "--recompute", "selective"),),
    ),
    Reader("accelerator file", "in.yaml", YAML, lambda: seeds.ACCELERATOR, (_predict("--model", "config.json", "--accelerator", "in.yaml"),), 2.0),
    Reader("accelerator file as JSON", "in.json", JSON, lambda: seeds.ACCELERATOR, (_predict("--model", "config.json", "--accelerator", "in.json"),)),
    Reader(
        "measured runs", "in.csv", LINED, lambda: seeds.MEASURED,
        (
            ("calibrate", "in.csv", "--accelerator", "h100", "-o", "out.yaml", "--json", "out.json"),
            ("calibrate", "in.csv", "--fit", "product_share,reserve_share"),
        ),
        2.0,
    ),
    Reader("logs of a calibration", "runs/in.log", LINED, lambda: seeds.TRAINING_LOG, (("calibrate", "runs", "--accelerator", "a100", "--fit", "product_share", "--runs", "out.csv"),)),
    Reader("accelerator file of a calibration", "in.yaml", YAML, lambda: seeds.ACCELERATOR, (("calibrate", "measured.csv", "--accelerator", "in.yaml"),)),
    Reader("model configuration", "in.json", JSON, lambda: seeds.CONFIG, (("profile", "--model", "in.json", "--seq", "8", "--accelerator", "a100", "-o", "out-layers.json"),), 0.4),
)  # fmt: skip
_NSIGHT = ("read-trace", "traces", "--layers", "2", "--microbatches", "2", "--head", "E", "--body", "L", "--tail", "T")
BASES: tuple[tuple[str, ...], ...] = (
    _plan(), _plan("--chunks", "2", "--schedule", "best"), _plan("--schedule", "search", "--split-backward", "--order", "out.csv"),
    ("simulate", "in.json", "--layers", "3,3", "--microbatches", "4", "--recompute", "full=1,1", "--memory", "1GB"),
    ("simulate", "in.json", "plan.json"), ("config",),
    _plan("--target", "megatron", "--chunks", "2"), _plan("--target", "deepspeed", "--schedule", "best"),
    ("compare", "in.json", "--ranks", "2", "--microbatches", "4", "--memory", "1GB", *FAST),
    ("compare", "in.json", "--baseline", "train.yaml", "--baseline-of", "mindformers", "--memory", "1GB", *FAST),
    ("report", "whole.json", "plan.html", "-o", "out.html"), ("report", "pp_data", "-o", "out.html"), ("simulate", "plan.html", "--html", "out.html"),
    ("export", "whole.json", "--to", "megatron", "--memory", "1GB", *FAST), ("export", "whole.json", "--to", "torchtitan", "-o", "out", *FAST),
    ("apply", "whole.json", "train.yaml", "--to", "mindformers", *FAST), ("apply", "whole.json", "train.sh", *FAST),
    ("compare", "in.json", "--baseline", "train.sh", "--memory", "1GB", *FAST),
    ("demo", "--json", "out.json", *FAST),
    ("schedules",),
    ("schedule", "show", "1f1b", "--ranks", "2", "--microbatches", "4"),
    ("schedule", "show", "interleaved", "--ranks", "3", "--chunks", "2", "--microbatches", "5"),
    ("schedule", "show", "zbv", "--ranks", "3", "--microbatches", "5"),
    ("schedule", "check", "order.csv"),
    ("guide", "--ranks", "4", "--layers", "16", "--recompute", "full,select"),
    ("collect-peaks", "in.log"),
    ("fit-memory", "init.yaml"),
    ("read-trace", "timelines", "--layers", "96", "--microbatches", "8"),
    ("run", "plan.json", "--model", "llama-tiny", "--steps", "3"),
    ("run", "plan.json", "--model", "config.json", "--steps", "3", "--aa-check", "--inject-fault", "rank=0,step=3"),
    ("auto", "--model", "none.json", "--mesh", "2x2", "--memory", "1GB", "--microbatches", "2", "--intra-bandwidth", "200GBps", "--inter-bandwidth", "25GBps"),
    ("auto", "--model", "none.json", "--cluster", "cluster.yaml", "--microbatches", "2"),
    ("auto", "--model", "none.json", "--cluster", "cluster.yaml", "--microbatches", "2", "--fix", "tensor=2,a.b=row"),
    ("profile", "--model", "none.json", "--seq", "8", "--accelerator", "a100"),
    ("tune", "--model", "config.json", "--accelerator", "h100", "--gpus", "4", "--global-batch", "4", "--seq", "64", *FAST),
    ("quick-tune", "in.json", "--ranks", "2", "--microbatches", "4", "--memory", "1GB", *FAST),
    ("memory-curve", "plan.json", "--memory", "1GB", "--target", "megatron", "--json", "out.json", *FAST),
    ("verify", "plan.json", "--json", "out.json"), _plan("--certificate", "out.json"),
    ("replan", "plan.json", "--rank-speed", "1:0.5", "--rank-memory", "0:900MB,1:1GB", "--move-bandwidth", "25GBps", *FAST),
    ("plan", "in.json", "--ranks", "2", "--microbatches", "4", "--memory", "1GB", "--rank-speed", "1:0.5", "--rank-memory", "0:900MB", "--rank-link", "0:1ms", *FAST),
    _predict("--model", "config.json", "--accelerator", "h100", "--recompute", "full", "-o", "out-layers.json"),
    _predict("--hidden", "64", "--layers", "8", "--heads", "4", "--vocab", "320", "--accelerator", "accelerator.yaml", "--memory", "1GB", "--chunks", "2"),
    ("calibrate", "measured.csv", "--accelerator", "h100", "--fit", "product_share", "-o", "out.yaml"),
    (SAPP, "-m", "in", "-lf", ".", "-s", "2", "-mb", "4", "-mem", "1000", "-t", "0.05"),
    (SAPP, "-m", "in", "-lf", ".", "-s", "2", "-mb", "4", "-i", "2", "-lm", "1", "-t", "0.05", "-naive", "1"),
    (SAPP, "-init", "init.yaml", "-m", "made", "-lf", "made", "-exec", "0"),
)  # fmt: skip
"""Command lines that are right; the mutations change their options."""
TORCH_BASES: tuple[tuple[str, ...], ...] = (
    ("auto", "--model", "config.json", "--mesh", "1x1", "--memory", "1GB", "--microbatches", "2", "--seq", "8", "--time-limit", "0.5"),
    ("profile", "--model", "config.json", "--seq", "8", "--accelerator", "a100"),
)  # fmt: skip
"""Command lines that build a model, which takes seconds."""


def write_neighbours(folder: Path) -> None:
    """Write the valid files that stand beside the mutated one, and nothing else."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    for name, tree in (
        ("in.json", seeds.LAYERS), ("layers.json", seeds.LAYERS), ("plan.json", {**seeds.PLAN, "schedule": "interleaved"}),
        ("config.json", seeds.CONFIG), ("init.yaml", seeds.INIT), ("cluster.yaml", seeds.CLUSTER), ("manual.yaml", seeds.MANUAL),
        ("train.yaml", seeds.TRAINING), ("whole.json", seeds.WHOLE_PLAN), ("accelerator.yaml", seeds.ACCELERATOR),
    ):  # fmt: skip
        (folder / name).write_text(json.dumps(tree))
    (folder / "order.csv").write_text(seeds.ORDER)
    (folder / "plan.html").write_text(seeds.report())
    (folder / "train.sh").write_text(seeds.SCRIPT)
    (folder / "measured.csv").write_text(seeds.MEASURED)
    (folder / "in.log").write_text(seeds.LOG)
    for name in ("pp_data", "traces", "timelines", "runs/stage_0_rank_0", "runs/stage_1_rank_8", "made", "out"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "runs" / "stage_1_rank_8" / "m.log").write_text(seeds.LOG)
    for name, tree in (
        ("config.json", seeds.PRIMUS_CONFIG),
        *((f"pp_rank_{rank}.json", seeds.primus(rank)) for rank in range(2)),
    ):
        (folder / "pp_data" / name).write_text(json.dumps(tree))
    (folder / "timelines" / "trace_view0.json").write_text(json.dumps(seeds.kineto()))


def make(number: int, seed: int, folder: Path) -> Command:
    """Write the files of input `number` of the sequence that `seed` begins into `folder`, and return its command."""
    random = Random(f"{seed} {number}")
    write_neighbours(folder)
    kind = random.random()
    if kind < 0.66:
        return _file_case(random, folder)
    if kind < 0.70:
        return _report_case(random, folder)
    return _option_case(random)


def _file_case(random: Random, folder: Path) -> Command:
    reader = random.choices(READERS, [reader.weight for reader in READERS])[0]
    data = mutated(reader.seed(), reader.form, random)
    arguments = random.choice(reader.commands)
    if reader.file == "-":
        return Command(reader.name, arguments, data)
    path = reader.file
    if path.startswith("traces/") and random.random() < 0.15:
        path, data = f"{path}.gz", seeds.compressed(data)
    for old in (folder / "traces").iterdir():
        old.unlink()
    (folder / path).write_bytes(data)
    return Command(reader.name, arguments)


def _report_case(random: Random, folder: Path) -> Command:
    """Change cells, columns or bytes of a report of Nsight Systems."""
    for old in (folder / "traces").iterdir():
        old.unlink()
    path = folder / "traces" / "in.sqlite"
    tables = deepcopy(seeds.nsight_tables())
    for _ in range(random.choice((0, 1, 2, 5))):
        name = random.choice(list(tables))
        row = random.choice(tables[name])
        values = [value for value in (*NUMBERS, *TEXTS, None, b"\xff", b"") if _fits_sqlite(value)]
        if row is tables[name][0]:
            row[random.randrange(len(row))] = random.choice(("x", "end", "start", "value", "text")) + str(
                random.randrange(3)
            )
            if random.random() < 0.3:
                del tables[name]
        else:
            row[random.randrange(len(row))] = random.choice(values)
    try:
        seeds.nsight(path, tables)
    except Exception:  # noqa: BLE001 - two columns of one name
        path.write_bytes(b"SQLite format 3\x00")
    data = path.read_bytes()
    if random.random() < 0.4:
        at = random.randrange(len(data))
        data = random.choice(
            (data[:at], data[:at] + bytes([random.randrange(256)]) + data[at + 1 :], data[:16] + random.randbytes(500))
        )
        path.write_bytes(data)
    return Command("Nsight Systems report", _NSIGHT)


def _fits_sqlite(value: object) -> bool:
    if isinstance(value, int) and not isinstance(value, bool):
        return abs(value) < 2**63
    return not isinstance(value, str) or value.isprintable()


def _option_case(random: Random) -> Command:
    base = list(random.choice(BASES if random.random() < 0.985 else TORCH_BASES))
    verb = " ".join(base[:2]) if base[0] == "schedule" else base[0]
    options = options_of(verb)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        kind = random.random()
        if kind < 0.75:
            names, takes_value, words = random.choice(options)
            value = odd_value(random, words)
            old = next((index for index, word in enumerate(base) if word in names), None)
            if not takes_value:
                base.append(names[0])
            elif old is not None and old + 1 < len(base):
                base[old + 1] = value
            else:
                base += [names[0], value]
        elif kind < 0.9:
            base[random.randrange(1, len(base)) if len(base) > 1 else 0 :][:1] = [odd_value(random, ())]
            base[random.randrange(len(base) - 1) + 1 if len(base) > 1 else 0] = odd_value(random, ())
        else:
            base.insert(random.randrange(1, len(base) + 1), random.choice(base))
    return Command(f"options of {verb}", tuple(hurried(base)))


def hurried(words: Sequence[str]) -> list[str]:
    """Return a command line with its legal time limits cut to `MOST_PATIENCE`."""
    hasty = list(words)
    for index, (option, value) in enumerate(pairwise(words), start=1):
        with suppress(ValueError):
            if option in TIME_LIMITS and float(value) > MOST_PATIENCE and float(value) in SECONDS:
                hasty[index] = str(MOST_PATIENCE)
    return hasty


_NUMBER_TEXTS = (
    "0", "-1", "1", "2", "3", "5", "7", "100", "1000", "10000", "100000", "1000000", "999999999", "999999999999", "1e3", "1.5", "nan",
    "inf", "-inf", "1e-300", "1e300", "1e999", "9" * 400, "9" * 4000, "9" * 5000, "0x10", "1_0", "１", " 2 ", "+2", "2.0", "", "x",
    str(2**31), str(2**63), str(2**64), "1e9", "1e8", "0.5", "1e-9",
)  # fmt: skip
_FILES = (
    "in.json", "plan.json", "config.json", "init.yaml", "manual.yaml", "train.yaml", "cluster.yaml", "order.csv", "none.json", ".", "/",
    "/dev/null", "in.json/x", "x" * 300, "none/none/x.json", "", "~", "out/x.json", "é.json", "a\nb.json", "traces", "-", "--", "\udcff",
)  # fmt: skip
_QUANTITIES = (
    *(text for text in TEXTS if isinstance(text, str) and "\x00" not in text),
    "1,1", "3,3", "1,1,1,1", "6,0", "0,6", "-1,7", "99999999999,1", ",", "1,,1", "full=1,1", "full=", "=", "x=1,1", "none=0,0", "mine=1,1",
    "full=9,9", "rank=0,step=3", "rank=9,step=9", "rank=0", "2x2", "1x1000000", "1000000x1", "999999x999999", "1GB", "1B", "80GB", "1TB",
    "99999999TB", "1Gbps", "1Bps", "1kb/s", "1us", "0s", "1e3s", "full,select", "none", "full,full", "f-then-b", "zb-h1", "dualpipe-v", "v-min",
    "llama-tiny", "a100", "h200", "float32", "bf16", "cpu", "cuda", "fake", "any", "sgd",
)  # fmt: skip


def odd_value(random: Random, words: Sequence[str]) -> str:
    """Return a value for an option: a number, a file, a quantity, or one of the words that the option knows."""
    pools: list[Sequence[str]] = [_NUMBER_TEXTS, _NUMBER_TEXTS, _QUANTITIES, _FILES]
    if words:
        pools.append(words)
    value = random.choice(random.choice(pools)).replace("\x00", "")
    # What an operating system can pass: bytes that are no UTF-8 come as these signs, others of their kind never.
    return "".join("?" if "\ud800" <= sign <= "\udfff" and not "\udc80" <= sign <= "\udcff" else sign for sign in value)


Option = tuple[tuple[str, ...], bool, tuple[str, ...]]
"""Spellings, whether it takes a value, and the values that it knows."""


@cache
def options_of(verb: str) -> tuple[Option, ...]:
    """Return every option of a verb, read from the command itself so that none is forgotten."""
    if verb == SAPP:
        from evenflow.cli.sapp.flags import parser

        return tuple(
            (tuple(action.option_strings), action.nargs != 0, tuple(map(str, action.choices or ())))
            for action in parser()._actions
            if action.option_strings and not isinstance(action, argparse._HelpAction | argparse._VersionAction)
            and "-guide" not in action.option_strings
        )  # fmt: skip
    assert isinstance(main, Verbs)
    command: Any = main
    for word in verb.split(" "):
        command = command.get_command(click.Context(command), word)
    return tuple(
        (
            tuple(option.opts),
            not option.is_flag,
            tuple(option.type.choices) if isinstance(option.type, click.Choice) else (),
        )
        for option in command.params
        if isinstance(option, click.Option)
    ) or ((("--json",), True, ()),)


def verbs_tried() -> set[str]:
    """Return the verbs that the bases have."""
    return {base[0] for base in (*BASES, *TORCH_BASES)} & set(VERBS)
