import importlib.util

from tests.paths import ROOT


def test_the_pages_are_what_the_script_writes():
    """After a change of a family, the simulator or the pictures: make schedule-pages."""
    spec = importlib.util.spec_from_file_location("make_schedule_pages", ROOT / "scripts" / "make_schedule_pages.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    pages = module.pages()
    assert {path.name for path in module.FOLDER.iterdir()} == set(pages)
    for name, text in pages.items():
        assert (module.FOLDER / name).read_text(encoding="utf-8") == text, name
