import os
import stat
from pathlib import Path

import pytest

from evenflow.cli.shared.output_files import check_outputs, write_text
from evenflow.errors import InputError


def test_replaces_the_file_as_a_whole_and_leaves_nothing_else(tmp_path):
    target = tmp_path / "new" / "result.json"
    write_text(target, "one", option="--json")
    write_text(target, "zwei ✓", option="--json")
    assert target.read_text(encoding="utf-8") == "zwei ✓"
    assert list(target.parent.iterdir()) == [target]


def test_keeps_the_old_file_when_writing_fails(tmp_path, monkeypatch):
    target = tmp_path / "result.json"
    target.write_text("old")

    def fail(self, _target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InputError, match="No space left"):
        write_text(target, "new", option="--json")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_new_files_have_the_usual_permissions(tmp_path):
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    plain.write_text("")
    write_text(ours, "", option="--json")
    assert stat.S_IMODE(ours.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


def test_a_link_keeps_pointing_to_its_file(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new", option="--json")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_device_is_written_to_and_not_replaced():
    check_outputs({"--json": Path(os.devnull), "--svg": Path(os.devnull)})
    write_text(Path(os.devnull), "text", option="--json")
    assert Path(os.devnull).is_char_device()


def test_the_check_leaves_nothing_behind(tmp_path):
    check_outputs({"--json": tmp_path / "a" / "b.json", "--svg": None})
    assert list(tmp_path.iterdir()) == []


def test_the_check_refuses_what_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for path in (tmp_path, file / "below", tmp_path / ("x" * 300), Path("/proc/none/file")):
        with pytest.raises(InputError) as error:
            check_outputs({"--json": path})
        assert error.value.place == "--json"


def test_the_check_refuses_one_file_for_two_things(tmp_path):
    one, same = tmp_path / "one", tmp_path / "." / "one"
    with pytest.raises(InputError, match="also --json"):
        check_outputs({"--json": one, "--svg": same})
    with pytest.raises(InputError, match="also the layer file"):
        check_outputs({"--json": one}, inputs={"the layer file": same})
