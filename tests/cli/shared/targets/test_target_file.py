from pathlib import Path

from evenflow.cli.shared.targets.target_file import TargetFile
from evenflow.targets.frameworks.mindformers import TARGET


def test_files_made_from_it_stand_beside_it(tmp_path):
    file = tmp_path / "train.yaml"
    file.write_bytes(b"\xef\xbb\xbfa: 1\r\n")
    train = TargetFile.read(file, TARGET, option="--to")
    assert train.text == "\ufeffa: 1\r\n", "byte order mark and line ends are kept"
    assert train.beside("planned") == tmp_path / "train.planned.yaml"
    assert train.beside("round2", folder=Path("out")) == Path("out/train.round2.yaml")
