"""What training reaches on each generation of accelerators, where nobody has measured.

``python -m benchmarks defaults --write`` fits Ampere, Volta, Hopper and Blackwell to published runs. There are none of
CDNA and Ascend with a stated step: they reach of products what their vendors' and others' tests of large ones do, and
the rest is that of Hopper. [MI300X: 45 to 55 % of the peak, hipBLASLt; Ascend 910: 60 to 70 %, arXiv:2506.12708]
"""

from collections.abc import Mapping

from evenflow.cluster.reached import Reached

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
    ),
    "Volta": Reached(
        product_share=0.606,
        attention_share=0.787,
        memory_share=0.696,
        operator_ns=61_600,
        link_share=0.625,
        network_share=0.444,
        latency_ns=27_900,
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
    ),
    "Blackwell": Reached(
        product_share=0.652,
        attention_share=0.533,
        memory_share=0.696,
        operator_ns=61_600,
        link_share=0.625,
        network_share=0.483,
        latency_ns=27_900,
    ),
    # end: fitted
}
GENERATIONS: Mapping[str, Reached] = {
    **_FITTED,
    "CDNA": _FITTED["Hopper"].changed({"product_share": 0.5}),
    "Ascend": _FITTED["Hopper"].changed({"product_share": 0.65}),
}
"""By the name of the generation."""
