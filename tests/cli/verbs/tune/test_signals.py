"""A signal while an answer after the ranking is worked out, to real processes: the ranking is printed and written."""

import json
import signal
import subprocess
import sys
import textwrap

import pytest

from tests.cli.verbs.tune.test_tune_baseline import SCRIPT
from tests.cli.verbs.tune.test_tune_command import ASKED

pytestmark = pytest.mark.processes

STATUS = {signal.SIGINT: 130, signal.SIGTERM: 143}
WAITS = """
    import importlib, sys, time
    from evenflow.interruption import was_interrupted, watch
    watch()
    module = importlib.import_module("{module}")
    real = module.{name}

    def waiting(*arguments, **keywords):
        print("there", file=sys.stderr, flush=True)
        while not was_interrupted():
            time.sleep(0.01)
        return real(*arguments, **keywords)

    module.{name} = waiting
    from evenflow.__main__ import main
    main()
"""
"""The command, but for one function, which begins with waiting for a signal."""


@pytest.mark.parametrize("number", list(STATUS))
@pytest.mark.parametrize(
    ("module", "name", "options", "says"),
    [
        ("evenflow.cli.verbs.tune.answers", "solved", ("--neighbours",), "not solved for, the time was over: "),
        ("evenflow.cli.verbs.tune.fronts", "search", ("--pareto",), "not solved for, the time was over: 5.2 GB of"),
        ("evenflow.tune.answers.standing", "solved", ("--baseline", "run.sh"), "yours (run.sh): rank "),
    ],
)
def test_the_ranking_is_there(tmp_path, number, module, name, options, says):
    (tmp_path / "run.sh").write_text(SCRIPT.format(tensor=2, more=""))
    command = (*ASKED, "--fix", "zero=1", "--schedules", "1f1b", "--time-limit", 600, *options, "--json", "tune.json")
    process = started(command, module, name, tmp_path)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert process.returncode == STATUS[number], err
    assert "interrupted: this is the best so far" in err
    assert "no configuration of this space" in out
    assert says in " ".join(out.split())
    assert json.loads((tmp_path / "tune.json").read_text())["ranked"]


@pytest.mark.parametrize("number", list(STATUS))
def test_that_nothing_fits_is_known(tmp_path, number):
    command = (*ASKED, "--memory", "100MB", "--time-limit", 600, "--json", "tune.json")
    process = started(command, "evenflow.tune.answers.infeasible", "space_of", tmp_path)
    process.send_signal(number)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out) == (STATUS[number], ""), err
    assert "no configuration fits" in err
    assert "what would do was not found in the time given" in err
    assert json.loads((tmp_path / "tune.json").read_text())["status"] == "infeasible"


def started(command, module, name, folder):
    """Return the process of a command that has come to the function."""
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(WAITS).format(module=module, name=name), *map(str, command)],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None
    lines = iter(process.stderr.readline, "")
    assert "there\n" in lines, "it has not come to the function"
    return process
