"""Write the tables of docs/software.md and its translation: the words for what software does, with their synonyms.

Run it with ``make software-table``.
"""

from itertools import groupby
from pathlib import Path

from evenflow.predict.stated_software import SETTINGS
from evenflow.predict.vocabulary import WORDS, SoftwareWord

_DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGES = (_DOCS / "software.md", _DOCS / "zh" / "software.md")
BEGIN, END = "<!-- table -->\n", "<!-- end of the table -->\n"
HEADERS = {"docs": ("about", "word", "also"), "zh": ("关于", "词", "同义词")}


def table(header: tuple[str, ...]) -> str:
    """Return the table, with a row for each word."""
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for aspect, words in groupby(WORDS, key=lambda word: word.aspect):
        for number, word in enumerate(words):
            lines.append(f"| {'' if number else aspect} | `{word.name}` | {', '.join(_also(word))} |")
    return "\n".join(lines) + "\n"


def _also(word: SoftwareWord) -> list[str]:
    settings = [
        f"`{name}={value.capitalize() if value in ('true', 'false') else value}`"
        for name, choices in SETTINGS.items()
        for value, of in choices.items()
        if of == word.name and word.name != "said-elsewhere"
    ]
    return [*(f"`{synonym}`" for synonym in word.synonyms), *settings]


def page(path: Path) -> str:
    """Return a page with the table as it must be."""
    before, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table(HEADERS[path.parent.name])}\n{END}{after}"


if __name__ == "__main__":
    for one in PAGES:
        one.write_text(page(one), encoding="utf-8")
