from pathlib import Path

from evenflow.cli.shared.targets.target_file import TargetFile, count_changed
from evenflow.targets.frameworks.mindformers.target import TARGET


def test_files_made_from_it_stand_beside_it(tmp_path):
    file = tmp_path / "train.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\r\n")
    train = TargetFile.read(file, TARGET, option="--to")
    assert train.text == "\ufeffa: 1\r\n", "byte order mark and line ends are kept"
    assert train.beside("planned") == tmp_path / "train.planned.yaml"
    assert train.beside("round2", folder=Path("out")) == Path("out/train.round2.yaml")


def test_lines_that_differ_are_counted():
    assert count_changed("a\nb\nc\n", "a\nx\nc\nd\n") == 2
    same = "x\n" * 30_000  # matching each with each would take minutes
    assert count_changed(f"a\n{same}", f"{same}b\n") >= 2
