from evenflow.export.sapp_text import format_bubbles

# What the [SAPP guide] prints in Step 5.
GUIDE_TEXT = """————————————— pp:16, vp: 1, micro: 16 ————————————
--------------------  bubble  --------------------
   real    =   ideal   +   imba    + recompute
  1.1064   =  0.9375   +  0.1382   +  0.0307
"""
BUBBLE = {"real": 1.10640004, "ideal": 0.9375, "imbalance": 0.13824, "recompute": 0.0307, "communication": 0.0}


def test_the_block_of_the_guide():
    assert format_bubbles(num_ranks=16, num_chunks=1, num_microbatches=16, bubble=BUBBLE) == GUIDE_TEXT


def test_an_imbalance_below_zero_is_explained():
    def lines(**changes):
        text = format_bubbles(num_ranks=4, num_chunks=1, num_microbatches=4, bubble=BUBBLE | changes)
        return text.splitlines()[4:]

    reason = "ideal is the bubble of equal stages, and unequal ones can fill and drain sooner"
    assert lines(real=0.7068, ideal=0.75, imbalance=-0.0532, recompute=0.01) == [
        f"real below ideal, imba below zero: {reason}"
    ]
    assert lines(real=0.7668, ideal=0.75, imbalance=-0.0532, recompute=0.07) == [f"imba below zero: {reason}"]
    assert lines(imbalance=-0.00001) == []


def test_communication_has_a_column_when_it_shows():
    bubble = BUBBLE | {"imbalance": -0.00001, "communication": 0.0724}
    lines = format_bubbles(num_ranks=8, num_chunks=2, num_microbatches=512, bubble=bubble).splitlines()
    assert lines[0] == "————————————— pp: 8, vp: 2, micro:512 ————————————"
    assert lines[2] == "   real    =   ideal   +   imba    +   comm    + recompute"
    assert lines[3] == "  1.1064   =  0.9375   +  0.0000   +  0.0724   +  0.0307"
