"""What training reaches on each generation of accelerators, where nobody has measured.

``python -m benchmarks defaults --write`` fits Ampere, Volta, Hopper and Blackwell to published runs. CDNA and Ascend
reach of products what their vendors' and others' tests of large ones do, and the rest is that of Hopper: of CDNA no
published run was compared, of Ascend runs of ModelLink were, and nothing was fitted to them. [MI300X: 45 to 55 % of the
peak, hipBLASLt; Ascend 910: 60 to 70 %, arXiv:2506.12708]
"""

from collections.abc import Mapping

from evenflow.cluster.reached import Reached
from evenflow.language import _

_FITTED: Mapping[str, Reached] = {
    # begin: fitted
    "Ampere": Reached(
        product_share=0.777,
        attention_share=0.787,
        memory_share=0.696,
        operator_ns=61_600,
        link_share=0.625,
        network_share=0.444,
        latency_ns=27_900,
        pair_slowdown=1.49,
    ),
    "Volta": Reached(
        product_share=0.606,
        attention_share=0.787,
        memory_share=0.696,
        operator_ns=61_600,
        link_share=0.625,
        network_share=0.444,
        latency_ns=27_900,
        pair_slowdown=1.49,
    ),
    "Hopper": Reached(
        product_share=0.651,
        low_precision_share=0.922,
        attention_share=0.533,
        memory_share=0.696,
        operator_ns=61_600,
        link_share=0.625,
        network_share=0.483,
        latency_ns=27_900,
        pair_slowdown=1.49,
    ),
    "Blackwell": Reached(
        product_share=0.652,
        attention_share=0.533,
        memory_share=0.696,
        operator_ns=61_600,
        link_share=0.625,
        network_share=0.483,
        latency_ns=27_900,
        pair_slowdown=1.49,
    ),
    # end: fitted
}
GENERATIONS: Mapping[str, Reached] = {
    **_FITTED,
    "CDNA": _FITTED["Hopper"].changed({"product_share": 0.5}),
    "Ascend": _FITTED["Hopper"].changed({"product_share": 0.65}),
}
"""By the name of the generation."""


def reach_assumed(generation: str) -> str:
    """Return a sentence on what a generation that nothing was fitted to is taken to reach; empty for the others."""
    if generation == "CDNA":
        known = _("never measured in training")
    elif generation == "Ascend":
        known = _("compared with 12 published runs, fitted to none")
    else:
        return ""
    return _(
        "what {generation} reaches: {known}; {share:g} % of the peak in products, as tests of large ones did, and the "
        "rest as Hopper",
        generation=generation,
        known=known,
        share=100 * GENERATIONS[generation].product_share,
    )
