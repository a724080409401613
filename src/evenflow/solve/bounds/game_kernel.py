"""The best mixture of paths: a game of paths, which want time, with stages, one of which takes each layer."""

from typing import Any

import numpy as np

from evenflow.simulate.compiled import compiled

_SMALL = 1e-9
_MOST_PIVOTS = 1000


@compiled
def solve_game(pays: Any) -> tuple[Any, Any]:
    """Return the shares of rows and of columns in a game in which rows want much of `pays` [rows, columns].

    None is below 0. With all raised above 0, which changes no share, that is the linear program in which columns y have
    ``pays @ y <= 1`` and their sum is largest; the shares of rows are its prices. Found by the simplex method: ended
    early, or rounded, both are shares still.
    """
    rows, columns = pays.shape
    last = columns + rows
    table = np.zeros((rows + 1, last + 1))
    table[:rows, :columns] = pays / max(pays.max(), _SMALL) + 1.0
    table[rows, :columns] = -1.0
    for row in range(rows):
        table[row, columns + row] = table[row, last] = 1.0
    basis = np.arange(columns, last)
    for _ in range(_MOST_PIVOTS):
        enters = np.argmin(table[rows, :last])
        if table[rows, enters] > -_SMALL:
            break
        leaves, least = -1, np.inf
        for row in range(rows):
            if table[row, enters] > _SMALL and table[row, last] < least * table[row, enters]:
                leaves, least = row, table[row, last] / table[row, enters]
        if leaves < 0:
            break
        table[leaves] /= table[leaves, enters]
        for row in range(rows + 1):
            if row != leaves and table[row, enters] != 0:
                table[row] -= table[row, enters] * table[leaves]
        basis[leaves] = enters
    mixed, chosen = np.maximum(table[rows, columns:last], 0.0), np.zeros(columns)
    for row in range(rows):
        if basis[row] < columns:
            chosen[basis[row]] = max(table[row, last], 0.0)
    return mixed / mixed.sum(), chosen / chosen.sum()
