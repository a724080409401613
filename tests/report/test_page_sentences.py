"""Every sentence that the page's script shows is there, and the script has no other."""

import re

from evenflow.report.page_sentences import page_sentences
from tests.paths import ROOT

SOURCES = sorted((ROOT / "web" / "src").glob("*.ts"))


def test_every_key_of_the_script_has_a_sentence():
    used = {key for path in SOURCES for key in re.findall(r'\bsay\("(\w+)"', path.read_text(encoding="utf-8"))}
    assert len(used) > 40
    assert used <= set(page_sentences())


def test_values_that_the_script_fills_in_are_those_of_the_sentence():
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    for key, sentence in page_sentences().items():
        for call in re.findall(rf'\bsay\("{key}"(, \{{[^}}]*\}})?\)', text):
            given = (
                set(re.findall(r"(\w+)(?=[,:}\s])", call))
                if "..." not in call
                else set(re.findall(r"{(\w+)}", sentence))
            )
            assert set(re.findall(r"{(\w+)}", sentence)) <= given, key


def test_every_sentence_is_used():
    text = "\n".join(path.read_text(encoding="utf-8") for path in SOURCES)
    text += (ROOT / "src" / "evenflow" / "report" / "page.py").read_text(encoding="utf-8")
    unused = [key for key in page_sentences() if f'"{key}"' not in text and f"['{key}']" not in text]
    assert unused == []
