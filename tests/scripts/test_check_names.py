"""The rule on names notices what it is for."""

import ast

from scripts.check_names import MOST_FILLERS, faults


def test_fillers_are_counted_wherever_they_are_bound() -> None:
    function = "def found(one):\n    with open(one) as each:\n        return [what for what in each]\n"
    lines = faults({"a.py": ast.parse(f"{function}number = lambda given: given\n")})
    assert [line.split(":")[1] for line in lines[:-1]] == ["1", "1", "2", "3", "4"], lines
    assert lines[-1].startswith("5 of 6 bindings")


def test_a_few_are_allowed() -> None:
    telling = "\n".join(f"name_{number} = {number}" for number in range(round(1 / MOST_FILLERS)))
    assert faults({"a.py": ast.parse(f"{telling}\nfound = 1\n")}) == []
    assert len(faults({"a.py": ast.parse(f"{telling}\nfound = each = 1\n")})) == 3


def test_public_classes_have_names_of_their_own() -> None:
    modules = {path: ast.parse("class Order: ...\nclass _Row: ...\n") for path in ("a.py", "b.py")}
    assert faults(modules) == ["class Order stands in a.py and b.py"]
    assert faults({"a.py": modules["a.py"]}) == []
