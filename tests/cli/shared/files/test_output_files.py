import os
import stat
from pathlib import Path

import pytest

from evenflow.cli.shared.files.output_files import Outputs, write_whole
from evenflow.errors import InputError
from tests.draw.png_files import NEEDS_FONTS, png_size


def test_replaces_the_file_as_a_whole_and_leaves_nothing_else(tmp_path):
    target = tmp_path / "new" / "result.json"
    write_whole(target, b"one", option="--json")
    write_whole(target, "zwei ✓".encode(), option="--json")
    assert target.read_text(encoding="utf-8") == "zwei ✓"
    assert list(target.parent.iterdir()) == [target]


def test_keeps_the_old_file_when_writing_fails(tmp_path, monkeypatch):
    target = tmp_path / "result.json"
    target.write_text("old")

    def fail(self, _target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(InputError, match=r"cannot write .*: no space left"):
        write_whole(target, b"new", option="--json")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_new_files_have_the_usual_permissions(tmp_path):
    plain, ours = tmp_path / "plain", tmp_path / "ours"
    plain.write_text("")
    write_whole(ours, b"", option="--json")
    assert stat.S_IMODE(ours.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o755])
def test_a_file_keeps_its_permissions_and_a_new_one_has_those_of_its_source(tmp_path, mode):
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("old")
    old.chmod(mode)
    write_whole(new, b"new", option="FILE", like=old)
    write_whole(old, b"new", option="FILE")
    assert [stat.S_IMODE(path.stat().st_mode) for path in (old, new)] == [mode, mode]


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="extended attributes of Linux")
def test_extended_attributes_stay(tmp_path):
    target = tmp_path / "old"
    target.write_text("old")
    try:
        os.setxattr(target, "user.note", b"mine")
    except OSError:
        pytest.skip("a file system without extended attributes")
    write_whole(target, b"new", option="FILE")
    assert os.getxattr(target, "user.note") == b"mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")
def test_the_owner_stays(tmp_path):
    target = tmp_path / "old"
    target.write_text("old")
    os.chown(target, 1234, 4321)
    write_whole(target, b"new", option="FILE")
    assert (target.stat().st_uid, target.stat().st_gid) == (1234, 4321)


def test_nobody_else_can_read_a_secret_while_it_is_written(tmp_path, monkeypatch):
    target = tmp_path / "token"
    target.write_text("old")
    target.chmod(0o600)
    modes = []
    monkeypatch.setattr(os, "fsync", lambda number: modes.append(stat.S_IMODE(os.fstat(number).st_mode)))
    write_whole(target, b"new", option="FILE")
    assert modes == [0o600]


def test_what_is_edited_must_not_change_meanwhile(tmp_path):
    target = tmp_path / "run.sh"
    target.write_text("old")
    outputs = Outputs({"FILE": target}, edited=("FILE",))

    def change_it_too() -> str:
        target.write_text("edited by hand")
        return "new"

    with pytest.raises(InputError, match="must not change between being read and being written"):
        outputs.write("FILE", change_it_too)
    assert target.read_text() == "edited by hand"
    assert list(tmp_path.iterdir()) == [target]


def test_what_is_edited_must_have_one_name(tmp_path):
    (tmp_path / "run.sh").write_text("old")
    (tmp_path / "again.sh").hardlink_to(tmp_path / "run.sh")
    with pytest.raises(InputError, match="with 2 names"):
        Outputs({"FILE": tmp_path / "run.sh"}, edited=("FILE",))


def test_a_link_keeps_pointing_to_its_file(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_whole(link, b"new", option="--json")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_a_device_is_written_to_and_not_replaced():
    Outputs({"--json": Path(os.devnull), "--svg": Path(os.devnull)})
    write_whole(Path(os.devnull), b"text", option="--json")
    assert Path(os.devnull).is_char_device()


def test_the_check_leaves_nothing_behind(tmp_path):
    Outputs({"--json": tmp_path / "a" / "b.json", "--svg": None})
    assert list(tmp_path.iterdir()) == []


def test_the_check_refuses_what_cannot_be_written(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    for path in (tmp_path, file / "below", tmp_path / ("x" * 300), Path("/proc/none/file")):
        with pytest.raises(InputError) as error:
            Outputs({"--json": path})
        assert "--json" in str(error.value)


def test_the_check_refuses_one_file_for_two_things(tmp_path):
    one, same = tmp_path / "one", tmp_path / "." / "one"
    with pytest.raises(InputError, match="--svg must not be the same file as --json"):
        Outputs({"--json": one, "--svg": same})
    with pytest.raises(InputError, match="--json must not be the same file as the layer file"):
        Outputs({"--json": one}, inputs={"the layer file": same})


def test_only_what_was_asked_for_is_made_and_written_and_named(tmp_path):
    outputs = Outputs({"--json": tmp_path / "a.json", "--order": tmp_path / "b.csv", "--svg": None})
    assert outputs.sentence == ""
    outputs.write_json(lambda: {"one": 1, "two": [2, "zwei ✓"]})
    outputs.write("--svg", lambda: pytest.fail("nobody asked for it"))
    written = (tmp_path / "a.json").read_text(encoding="utf-8")
    assert written.startswith('{\n  "one": 1,\n  "two": [2, "zwei ✓"],\n  "written_by": "evenflow ')
    assert outputs.sentence == f"wrote {tmp_path / 'a.json'}"
    outputs.write("--order", lambda: "0F0")
    assert outputs.sentence == f"wrote {tmp_path / 'a.json'}, {tmp_path / 'b.csv'}"


@NEEDS_FONTS
def test_a_picture_is_what_the_suffix_says(tmp_path):
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20"><rect width="9" height="9"/></svg>'
    outputs = Outputs({"--svg": tmp_path / "a.png"}, pictures={"one": tmp_path / "b.PNG", "two": tmp_path / "c.svg"})
    for option in ("--svg", "one", "two"):
        outputs.write(option, lambda: svg)
    assert png_size(tmp_path / "a.png") == png_size(tmp_path / "b.PNG") == (60, 40)
    assert (tmp_path / "c.svg").read_text().startswith(svg)


@pytest.mark.parametrize("name", ["a.jpg", "a.pdf", "a.svgz", "plan v1.5"])
def test_another_kind_of_picture_is_refused_before_the_work(tmp_path, name):
    with pytest.raises(InputError, match=r"--svg must end in \.svg or \.png, the formats of pictures"):
        Outputs({"--svg": tmp_path / name})
    with pytest.raises(InputError, match=r"the picture of x must end in \.svg or \.png"):
        Outputs({}, pictures={"the picture of x": tmp_path / name})


FOREIGN = "must not be a file that evenflow did not write"
CHANGED = "must not be a file that was changed after evenflow wrote it"


def written(path: Path, **how: object) -> Path:
    """A result file at `path`, as a verb writes it."""
    Outputs({"--json": path}, **how).write_json(lambda: {"one": 1})
    return path


class TestWhatIsReplaced:
    def test_its_own_files_are_replaced(self, tmp_path):
        path = written(tmp_path / "a.json")
        Outputs({"--json": path}).write_json(lambda: {"one": 2})
        assert '"one": 2' in path.read_text()
        Outputs({"--json": path}).write_json(lambda: {"one": 3})
        assert '"one": 3' in path.read_text()

    def test_an_empty_file_is_nothing_to_lose(self, tmp_path):
        (tmp_path / "empty").touch()
        written(tmp_path / "empty")

    @pytest.mark.parametrize("content", ["mine", '{"layers": [[1]]}', "<svg></svg>", "a: 1\n", "\x00", " "])
    def test_a_file_of_another_origin_is_kept(self, tmp_path, content):
        path = tmp_path / "mine"
        path.write_text(content)
        with pytest.raises(InputError, match=rf"^--json {FOREIGN}, got .*choose another name, or add --overwrite"):
            Outputs({"--json": path})
        assert path.read_text() == content
        written(path, overwrite=True)
        written(path)

    def test_a_file_that_was_changed_is_kept(self, tmp_path):
        path = written(tmp_path / "a.json")
        path.write_text(path.read_text().replace(": 1", ": 7"))
        with pytest.raises(InputError, match=CHANGED):
            Outputs({"--json": path})
        written(path, overwrite=True)

    def test_measurements_are_replaced_by_the_verb_that_made_them(self, tmp_path):
        path = written(tmp_path / "run.json", measured_by="run")
        with pytest.raises(InputError, match="must not be a file with measurements of evenflow run"):
            Outputs({"--json": path})
        with pytest.raises(InputError, match="must not be a file with measurements of evenflow run"):
            Outputs({"--json": path}, measured_by="profile")
        written(path, measured_by="run")

    def test_behind_a_link_too(self, tmp_path):
        (tmp_path / "mine").write_text("mine")
        (tmp_path / "link").symlink_to(tmp_path / "mine")
        with pytest.raises(InputError, match=FOREIGN):
            Outputs({"--json": tmp_path / "link"})

    def test_a_file_that_comes_during_the_work_is_kept(self, tmp_path):
        outputs = Outputs({"--json": tmp_path / "a.json"})
        (tmp_path / "a.json").write_text("mine")
        with pytest.raises(InputError, match=FOREIGN):
            outputs.write_json(lambda: {"one": 1})
        assert (tmp_path / "a.json").read_text() == "mine"

    def test_an_order_is_known_by_its_form(self, tmp_path):
        path = tmp_path / "order.csv"
        Outputs({"--order": path}, without_mark=("--order",)).write("--order", lambda: "0F0,0B0\n1F0,1B0\n")
        assert path.read_text() == "0F0,0B0\n1F0,1B0\n"
        Outputs({"--order": path}, without_mark=("--order",))
        for other in ("0F0, 0B0\n", "a,b\n", "0F0,0B0\r\n", "{", "[]", "{}"):
            path.write_bytes(other.encode())
            with pytest.raises(InputError, match=FOREIGN):
                Outputs({"--order": path}, without_mark=("--order",))

    def test_so_is_an_object_whose_keys_are_names(self, tmp_path):
        path = tmp_path / "families.json"
        for _ in range(2):
            Outputs({"--json": path}, without_mark=("--json",)).write_json(lambda: {"1f1b": {"idea": "✓"}})
        assert path.read_text() == '{\n  "1f1b": {"idea": "✓"}\n}\n'
        path.write_text('{"1f1b": {"idea": "mine"}}\n')
        with pytest.raises(InputError, match=FOREIGN):
            Outputs({"--json": path}, without_mark=("--json",))

    def test_a_file_that_is_edited_in_place_is_left_to_its_owner(self, tmp_path):
        (tmp_path / "init.yaml").write_text("a: 1\n")
        outputs = Outputs({"--init-file": tmp_path / "init.yaml"}, edited=("--init-file",))
        outputs.write("--init-file", lambda: "a: 2\n")
        assert (tmp_path / "init.yaml").read_text() == "a: 2\n"


def test_a_name_that_is_no_text_is_written_with_question_marks(tmp_path: Path) -> None:
    target = tmp_path / "layers.json"
    Outputs({"--layer-file": target}).write("--layer-file", lambda: '{"name": "a\udcff"}')
    assert '"a?"' in target.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--json", "a.svg"), ("--trace", "a.csv"), ("--timeline", "a.html"), ("--order", "a.json"), ("--runs", "a.yaml")
    ],
)  # fmt: skip
def test_a_suffix_of_another_format_is_refused(tmp_path: Path, option: str, name: str) -> None:
    with pytest.raises(InputError, match=f"{option} must not have the suffix of another format"):
        Outputs({option: tmp_path / name})
    Outputs({option: tmp_path / "a.txt"})


def test_a_format_has_all_its_suffixes(tmp_path: Path) -> None:
    for name in ("a.yaml", "a.yml", "a"):
        Outputs({"--init-file": tmp_path / name}, formats={"--init-file": ".yaml"})
    with pytest.raises(InputError, match=r"--init-file must not have .*: it is written as .yaml.*; name it a.yaml"):
        Outputs({"--init-file": tmp_path / "a.json"}, formats={"--init-file": ".yaml"})
