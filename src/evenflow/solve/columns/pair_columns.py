"""What forwards save beside backwards, for many contents of a rank at once."""

import numpy as np

from evenflow.simulate import HalvesTable, Integers


def saved_by_column(
    starts: Integers, sizes: Integers, other_starts: Integers, other_sizes: Integers, table: HalvesTable
) -> Integers:
    """Return what a forward of the layers from `starts` on saves beside a backward of those from `other_starts` on.

    All have the shape [num_columns], and so has the result (see `saved_beside`).
    """
    # Importing the kernel loads the compiler, which only a proof needs.
    from evenflow.solve.columns.pair_kernel import fill_saved

    saved = np.zeros(len(starts), dtype=np.int64)
    fill_saved(starts, sizes, other_starts, other_sizes, table.types, table.saved_ns, saved)
    return saved
