"""The questions that several requests ask, for Python keywords and options of the command line alike."""

from evenflow.asking import asked, asked_as
from evenflow.language import to_translate
from evenflow.ranges import CHUNKS, MEMORY_BYTES, MICROBATCHES, RANKS, ROWS, SECONDS, SEQUENCE_SPLITS

NUM_RANKS = asked(RANKS, place=to_translate("the number of ranks"), option="--ranks", help="Pipeline ranks.")
NUM_CHUNKS = asked(
    CHUNKS,
    place=to_translate("the number of chunks"),
    option="--chunks",
    help="Model chunks of each rank.  [default: those of the schedule, or 1]",
)
NUM_MICROBATCHES = asked(
    MICROBATCHES,
    place=to_translate("the number of microbatches"),
    option="--microbatches",
    help="Microbatches of one step.",
)
NUM_SEQUENCE_SPLITS = asked(
    SEQUENCE_SPLITS,
    place=to_translate("the number of sequence splits"),
    option="--sequence-splits",
    help="Parts that each sequence is cut into.",
    shows_default=True,
)
PLACED_RANKS = asked(
    RANKS,
    place=to_translate("the number of ranks that are placed together"),
    option="--place-ranks",
    metavar="N",
    help="Also choose where ranks that differ stand: try every order of groups of N ranks in a row, such as those of "
    "a node.",
)
MEMORY_LIMIT = asked(MEMORY_BYTES, place=to_translate("the memory limit"), option="--memory", metavar="SIZE")
TIME_LIMIT = asked(SECONDS, option="--time-limit", metavar="SECONDS", shows_default=True)
SEARCH_TIME = asked_as(TIME_LIMIT, help="Stop searching after this time; the best plan so far is the answer.")
NUM_ROWS = asked(ROWS, option="--rows", shows_default=True, help="Rows of the table, solved exactly.")
