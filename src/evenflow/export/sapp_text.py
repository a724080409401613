"""The bubble block of the SAPP balancer, as the [SAPP guide] prints it."""

from collections.abc import Mapping

from evenflow.language import _


def format_bubbles(*, num_ranks: int, num_chunks: int, num_microbatches: int, bubble: Mapping[str, float]) -> str:
    """Return three lines of the bubble as fractions of the model time, under a line with the sizes::

        ————————————— pp:16, vp: 1, micro: 16 ————————————
        --------------------  bubble  --------------------
           real    =   ideal   +   imba    + recompute
          1.1064   =  0.9375   +  0.1382   +  0.0307

    `bubble` has real, ideal, imbalance, recompute and communication; the last gets a column when it shows. Below an
    imbalance that shows as negative, a line says why it can be.
    """
    columns = {"real": bubble["real"], "ideal": bubble["ideal"], "imba": bubble["imbalance"]}
    if round(bubble["communication"], 4):
        columns["comm"] = bubble["communication"]
    columns["recompute"] = bubble["recompute"]
    # Adding zero turns a rounded -0.0 into 0.0.
    values = [f"{round(value, 4) + 0.0:.4f}" for value in columns.values()]
    note = _below_zero(real=round(bubble["real"], 4), ideal=round(bubble["ideal"], 4)) if values[2][0] == "-" else ""
    return (
        f"{'—' * 13} pp:{num_ranks:>2}, vp:{num_chunks:>2}, micro:{num_microbatches:>3} {'—' * 12}\n"
        f"{'-' * 20}  bubble  {'-' * 20}\n"
        f"{_equation(list(columns))}\n"
        f"{_equation(values)}\n"
        f"{note}"
    )


def _below_zero(*, real: float, ideal: float) -> str:
    reason = _("ideal is the bubble of equal stages, and unequal ones can fill and drain sooner")
    if real < ideal:
        return _("real below ideal, imba below zero: {reason}", reason=reason) + "\n"
    return _("imba below zero: {reason}", reason=reason) + "\n"


def _equation(terms: list[str]) -> str:
    first, *rest = (f"{term:^11}" for term in terms)
    return f"{first}={'+'.join(rest)}".rstrip()
