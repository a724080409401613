"""Who uses whom, in small repositories that are written here."""

import pytest
from scripts.import_graph import ImportGraph, import_roots, is_test, module_name

HOUSE = {
    "pyproject.toml": '[tool.pytest.ini_options]\npythonpath = ["."]\n'
    '[tool.hatch.build.targets.wheel]\npackages = ["src/house"]\n',
    "wing/pyproject.toml": '[tool.hatch.build.targets.wheel]\npackages = ["src/wing"]\n'
    '[project.entry-points."house.verbs"]\nfly = "wing.fly:fly"\n',
    "src/house/__init__.py": "TYPE_CHECKING = False\nif TYPE_CHECKING:\n    from house.cellar import Wine\n"
    '_HOMES = {"Wine": "house.cellar"}\ndef __getattr__(name): ...\n',
    "src/house/__main__.py": "from house.door import main\n",
    "src/house/cellar.py": "class Wine: ...\n",
    "src/house/attic.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from house import cellar\n",
    "src/house/room/__init__.py": "from house.room.chair import Chair\nfrom .table import Table\n",
    "src/house/room/chair.py": "class Chair: ...\n",
    "src/house/room/table.py": "def lay():\n    from house import cellar\n",
    "src/house/door.py": 'import importlib\ndef main(name):\n    importlib.import_module(f"house.verbs.{name}")\n',
    "src/house/verbs/__init__.py": "",
    "src/house/verbs/go_in.py": "",
    "src/house/verbs/go_out.py": "",
    "src/house/pets/__init__.py": "",
    "src/house/pets/cat.py": "",
    "src/house/pets/birds/__init__.py": "",
    "src/house/pets/birds/owl.py": "",
    "src/house/zoo.py": "from house import pets\nimport pkgutil\nfound = pkgutil.iter_modules(pets.__path__)\n",
    "wing/src/wing/__init__.py": "",
    "wing/src/wing/fly.py": "from house.attic import height\n",
    "wing/tests_wing/test_fly.py": "from wing import fly\n",
    "tests/__init__.py": "",
    "tests/conftest.py": "",
    "tests/room/conftest.py": """
import pytest
from house import attic
from house.verbs import go_in as going, go_out

def climb():
    return attic.height

@pytest.fixture(autouse=True)
def ladder():
    return climb()

@pytest.fixture
def entry(ladder):
    return going
""",
    "tests/room/upper/conftest.py": "from tests.room.conftest import entry, ladder\n",
    "tests/room/upper/test_bed.py": "def test_bed(entry): ...\n",
    "tests/room/test_chair.py": "from house.room import Chair\n",
    "tests/room/test_table.py": "from house.room import Table\n",
    "tests/room/test_room.py": "from house import room\n",
    "tests/test_wine.py": "import house\nhouse.Wine()\n",
    "tests/test_late_wine.py": "from house import Wine\n",
    "tests/test_zoo.py": "from house.zoo import found\n",
    "tests/test_patched.py": 'def test_it(patch):\n    patch("house.attic.height")\n',
    "tests/test_documented.py": '"""Says house.attic only here."""\n',
    "tests/door.py": "from house.door import main\n",
    "tests/test_going_in.py": 'from tests.door import main\nmain("go-in --quickly")\n',
    "tests/test_flying.py": 'from tests.door import main\nmain("fly")\n',
    "tests/test_any_door.py": "from tests.door import main\n",
    "tests/test_process.py": 'import sys\nrun([sys.executable, "-m", "house", "go-out"])\n',
}
DOORS = {"tests/test_any_door.py"}


@pytest.mark.parametrize(
    ("changed", "tests"),
    [
        ("src/house/room/chair.py", {"tests/room/test_chair.py", "tests/room/test_room.py"}),
        ("src/house/room/table.py", {"tests/room/test_table.py", "tests/room/test_room.py"}),
        (
            "src/house/room/__init__.py",
            {"tests/room/test_chair.py", "tests/room/test_table.py", "tests/room/test_room.py"},
        ),
        (
            "src/house/cellar.py",
            {"tests/test_wine.py", "tests/test_late_wine.py", "tests/room/test_table.py", "tests/room/test_room.py"},
        ),
        ("src/house/pets/cat.py", {"tests/test_zoo.py"}),
        ("src/house/pets/birds/owl.py", {"tests/test_zoo.py"}),
        ("src/house/verbs/go_in.py", {"tests/test_going_in.py", "tests/room/upper/test_bed.py", *DOORS}),
        ("src/house/verbs/go_out.py", {"tests/test_process.py", *DOORS}),
        ("src/house/__main__.py", {"tests/test_process.py"}),
        ("wing/src/wing/fly.py", {"wing/tests_wing/test_fly.py", "tests/test_flying.py", *DOORS}),
        (
            "src/house/attic.py",
            {
                "tests/room/test_chair.py", "tests/room/test_table.py", "tests/room/test_room.py",
                "tests/room/upper/test_bed.py", "tests/test_patched.py",
                "wing/tests_wing/test_fly.py", "tests/test_flying.py", *DOORS,
            },
        ),
        ("tests/test_wine.py", {"tests/test_wine.py"}),
    ],
)  # fmt: skip
def test_a_changed_file_reaches_these_tests(changed, tests):
    assert {path for path in ImportGraph(HOUSE).users({changed}) if is_test(path)} == tests


def test_fixtures_of_a_folder_reach_what_is_below_it():
    graph = ImportGraph(HOUSE)
    assert set(filter(is_test, graph.users({"tests/room/conftest.py"}))) == {
        f"tests/room/{name}.py" for name in ("test_chair", "test_table", "test_room", "upper/test_bed")
    }
    assert len(set(filter(is_test, graph.users({"tests/conftest.py"})))) == sum(map(is_test, HOUSE)) - 1


def test_every_package_has_its_own_root():
    roots = import_roots(HOUSE)
    assert set(roots) == {"wing/src", "wing", "src", ""}
    names = {path: module_name(path, roots) for path in HOUSE if path.endswith(".py")}
    assert names["wing/src/wing/fly.py"] == "wing.fly"
    assert names["wing/tests_wing/test_fly.py"] == "tests_wing.test_fly"
    assert names["src/house/room/__init__.py"] == "house.room"
    assert names["tests/room/test_room.py"] == "tests.room.test_room"
