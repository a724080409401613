"""The marker `processes` stands in every file of tests that starts processes, which `make test-quick` leaves out."""

import re

from tests.paths import ROOT

STARTS = re.compile(
    r"\bsubprocess\.(?:run|Popen|check_\w+)\(|\b(?:run_group|start_warm|typed|warm_context|run_script|WarmScript)\(|\blaunch(?:er)?\.launch\("
)
MARKED = re.compile(r"pytest\.mark\.(?:processes|gpu|page)\b")


def test_files_that_start_processes_are_marked() -> None:
    files = [*ROOT.glob("tests*/**/test_*.py"), *ROOT.glob("*/tests*/**/test_*.py")]
    texts = {file.relative_to(ROOT).as_posix(): file.read_text(encoding="utf-8") for file in files}
    starting = {path for path, text in texts.items() if STARTS.search(text)}
    assert len(starting) > 20
    assert {path for path in starting if not MARKED.search(texts[path])} == set()
