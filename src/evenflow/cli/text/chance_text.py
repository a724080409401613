"""The probability that something fits, as a number of percent that claims no more than is known."""

_NEARLY_SURE = 0.99


def chance_words(probability: float) -> str:
    """Return percent without the sign, beyond 1 and 99 as bounds.

    >>> [chance_words(each) for each in (0.0004, 0.973, 0.9999)]
    ['<1', '97', '>99']
    """
    if probability > _NEARLY_SURE:
        return f">{100 * _NEARLY_SURE:.0f}"
    if probability < 1 - _NEARLY_SURE:
        return f"<{100 * (1 - _NEARLY_SURE):.0f}"
    return f"{100 * probability:.0f}"
