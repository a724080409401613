import re

from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.draw.page import WIDTH
from evenflow.draw.side_by_side_picture import side_by_side_svg
from evenflow.draw.vocabulary import Vocabulary
from tests.draw.cases import bars, by_class, by_id, parse, simulation, words
from tests.thoroughness import examples

GIGABYTE = 2**30


def test_both_have_the_same_axes() -> None:
    long, short = simulation(2, 1, 8, full=2), simulation(2, 1, 4, full=0)
    svg = side_by_side_svg([("a", long, "optimal"), ("b", short, "")], memory_limit_bytes=None)
    root = parse(svg)
    assert root.get("width") == str(2 * WIDTH)
    lengths = []
    for index in range(2):
        page = by_id(root, f"page-{index}")
        timeline = by_id(page, f"page-{index}-timeline")
        lengths.append(max(right for path in by_class(timeline, "backward") for _, right, _ in bars(path)))
    left = 128
    ratio = (lengths[1] - left) / (lengths[0] - left)
    assert abs(ratio - short.makespan_ns / long.makespan_ns) < 0.001
    ticks = [re.findall(r">([\d,.]+(?: ms)?)<", part) for part in svg.split('<g id="page-1"')]
    assert ticks[0][-5:] == ticks[1][-5:]


@settings(max_examples=examples(30), deadline=None)
@given(
    st.lists(st.tuples(st.text(), st.integers(1, 5), st.integers(1, 3), st.integers(1, 6), st.booleans()), min_size=2,
             max_size=3),
    st.none() | st.integers(1, 40),
)  # fmt: skip
def test_names_are_unique_and_references_lead_somewhere(
    plans: list[tuple[str, int, int, int, bool]], limit: int | None
) -> None:
    pages = [(title, simulation(*size, has_memory=memory), title) for title, *size, memory in plans]
    limit_bytes = None if limit is None else limit * GIGABYTE
    svg = side_by_side_svg(pages, memory_limit_bytes=limit_bytes, vocabulary=Vocabulary.SAPP)
    root = parse(svg)
    names = [element.get("id") for element in root.iter() if element.get("id")]
    assert len(set(names)) == len(names)
    references = [element.get("href", "")[1:] for element in root.iter() if element.get("href")]
    references += [element.get("clip-path", "")[5:-1] for element in root.iter() if element.get("clip-path")]
    assert set(references) <= set(names)
    own_words = [line for line in words(root) if not any(line in title for title, *_size in plans)]
    assert not any(line.startswith("rank") for line in own_words)
