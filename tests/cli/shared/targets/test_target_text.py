"""What is printed of a written plan."""

from evenflow.cli.shared.targets.target_text import beside_text, written_text
from evenflow.targets.target import Piece, Written


def test_of_a_long_order_only_the_beginning_is_printed() -> None:
    """Two lines of 900 actions: neither can be read, and a file is better than pasting them."""
    line = ",".join(f"0F{number}" for number in range(900))
    long = Piece(title="order of work", syntax="csv", text=f"{line}\n" * 5, file_name="order.csv")
    shown = written_text(Written(pieces=(long,))).splitlines()
    assert shown[0] == "order of work:"
    assert [part.startswith("0F0,0F1,") and part.endswith(",…") and len(part) <= 101 for part in shown[1:3]] == [
        True
    ] * 2
    assert shown[3:] == ["… 5 lines; whole with evenflow export --output-folder DIR"]


def test_everything_else_is_printed_whole() -> None:
    order = Piece(title="order of work", syntax="csv", text="0F0,0B0\n", file_name="order.csv")
    code = Piece(title="code", syntax="python", text="x = 1\n" * 1000)
    text = written_text(Written(pieces=(order, code), environment={"A": "1"}, notes=("mind it",)))
    assert text.startswith("order of work:\n0F0,0B0\n\ncode:\nx = 1\n")
    assert text.count("x = 1") == 1000
    assert text.endswith("environment variables:\nA=1\n\nnote: mind it")


CONFIGURATION = Piece(title="the file", syntax="toml", text="a = 1\n", file_name="run.toml")
ORDER = Piece(title="order of work", syntax="csv", text="0F0,0B0\n", file_name="order.csv")
FRAGMENT = Piece(title="a fragment", syntax="text", text="b\n")


def test_order_and_variables_stand_beside_the_configuration() -> None:
    written = Written(pieces=(CONFIGURATION, ORDER, FRAGMENT), environment={"FAST": "1"})
    assert beside_text(written) == "order.csv, order of work:\n0F0,0B0\n\nenvironment variables:\nFAST=1"
    assert beside_text(Written(pieces=(CONFIGURATION,))) == ""
