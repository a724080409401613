"""The bubble block of the SAPP balancer, as the [SAPP guide] prints it."""

from collections.abc import Mapping


def format_bubbles(*, num_ranks: int, num_chunks: int, num_microbatches: int, bubble: Mapping[str, float]) -> str:
    """Return three lines of the bubble as fractions of the model time, under a line with the sizes::

        ————————————— pp:16, vp: 1, micro: 16 ————————————
        --------------------  bubble  --------------------
           real    =   ideal   +   imba    + recompute
          1.1064   =  0.9375   +  0.1382   +  0.0307

    `bubble` has real, ideal, imbalance, recompute and communication; the last gets a column when it shows.
    """
    columns = {"real": bubble["real"], "ideal": bubble["ideal"], "imba": bubble["imbalance"]}
    if round(bubble["communication"], 4):
        columns["comm"] = bubble["communication"]
    columns["recompute"] = bubble["recompute"]
    # Adding zero turns a rounded -0.0 into 0.0.
    values = [f"{round(value, 4) + 0.0:.4f}" for value in columns.values()]
    return (
        f"{'—' * 13} pp:{num_ranks:>2}, vp:{num_chunks:>2}, micro:{num_microbatches:>3} {'—' * 12}\n"
        f"{'-' * 20}  bubble  {'-' * 20}\n"
        f"{_equation(list(columns))}\n"
        f"{_equation(values)}\n"
    )


def _equation(terms: list[str]) -> str:
    first, *rest = (f"{term:^11}" for term in terms)
    return f"{first}={'+'.join(rest)}".rstrip()
