"""Means and spreads of samples."""

from fractions import Fraction

from evenflow.profiles.traces.layer_times import SampleSpread, block_time
from evenflow.profiles.traces.names import Match
from evenflow.profiles.traces.samples import FileReport, FileSamples, Sample


def file(*samples, name="a"):
    """Samples of role, name, step, forward and backward."""
    return FileSamples(
        report=FileReport(file=name, source="", num_steps=1, counted_steps=1, steps_from="", num_layers=None), notes=(),
        samples=[
            Sample(
                match=Match(role, layer), scope=f"0-{layer}", step=step, forward_ns=Fraction(forward),
                backward_ns=None if backward is None else Fraction(backward),
            )
            for role, layer, step, forward, backward in samples
        ],
    )  # fmt: skip


def test_layers_of_the_body_are_samples_each():
    files = [file(("body", "A", 1, 10, 30), ("body", "A", 1, 11, None)), file(("body", "A", 2, 15, 20), name="b")]
    block = block_time(files, "body", ["A"])
    assert (block.forward_ns, block.backward_ns, block.known_backward_ns, block.num_samples) == (12, 25, 25, 3)
    assert block.forward_spread == SampleSpread(minimum_ns=10, median_ns=11, maximum_ns=15)
    assert block.files == ("a", "b")


def test_layers_of_the_tail_add_up_within_a_step_and_a_backward_counts_where_it_is_whole():
    files = [
        file(("tail", "A", 1, 10, 20), ("tail", "B", 1, 1, None), ("tail", "A", 2, 12, 24), ("tail", "B", 2, 3, 6))
    ]
    block = block_time(files, "tail", ["A", "B"])
    assert (block.name, block.forward_ns, block.backward_ns, block.num_samples) == ("A + B", 13, 30, 2)


def test_without_a_backward_it_is_twice_the_forward_and_without_a_sample_there_is_no_time():
    files = [file(("head", "A", 1, 10, None))]
    block = block_time(files, "head", ["A"])
    assert (block.backward_ns, block.known_backward_ns) == (None, 20)
    assert block_time(files, "tail", ["A"]) is None
