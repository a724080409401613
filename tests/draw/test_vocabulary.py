from evenflow.draw import timeline_svg
from evenflow.draw.vocabulary import Vocabulary
from tests.draw.cases import parse, simulation, words

GIGABYTE, MEGABYTE = 2**30, 2**20


def test_the_words_of_each():
    ours, sapp = Vocabulary.OURS, Vocabulary.SAPP
    assert (ours.rank(3), ours.ranks(1), ours.ranks(2), ours.several) == ("rank 3", "1 rank", "2 ranks", "ranks")
    assert (sapp.rank(3), sapp.ranks(1), sapp.ranks(2), sapp.several) == ("stage 3", "1 stage", "2 stages", "stages")
    assert ours.memory_unit(56 * GIGABYTE) == (GIGABYTE, "GB")
    assert sapp.memory_unit(56 * GIGABYTE) == (MEGABYTE, "MB")


def test_a_picture_speaks_one_of_them():
    drawn = simulation(2, 2, 4)
    for vocabulary, there, absent in (
        (Vocabulary.OURS, ("rank 0", "2 ranks × 2 chunks × 4 microbatches, 8 layers", "limit 7 GB"), ("stage", "MB")),
        (
            Vocabulary.SAPP,
            ("stage 0", "2 stages × 2 chunks × 4 microbatches, 8 layers", "limit 7,168 MB"),
            ("rank", "GB"),
        ),
    ):
        root = parse(timeline_svg(drawn, memory_limit_bytes=7 * GIGABYTE, title="x", vocabulary=vocabulary))
        said = words(root)
        assert set(there) <= set(said)
        assert not [line for line in said for word in absent if word in line]
