"""What training reaches on each generation of accelerators, where nobody has measured.

``python -m benchmarks defaults --write`` fits Ampere, Volta, Hopper and Blackwell to published runs. There are none of
CDNA and Ascend with a stated step: they reach of products what their vendors' and others' tests of large ones do, and
the rest is that of Hopper. [MI300X: 45 to 55 % of the peak, hipBLASLt; Ascend 910: 60 to 70 %, arXiv:2506.12708]
"""

from collections.abc import Mapping

from evenflow.cluster.reached import Reached

_FITTED: Mapping[str, Reached] = {
    # begin: fitted
    "Volta": Reached(
        product_share=0.6,
        attention_share=0.818,
        memory_share=0.7,
        operator_ns=64_000,
        link_share=0.617,
        network_share=0.428,
        latency_ns=20_900,
    ),
    "Ampere": Reached(
        product_share=0.764,
        attention_share=0.818,
        memory_share=0.7,
        operator_ns=64_000,
        link_share=0.617,
        network_share=0.428,
        latency_ns=20_900,
    ),
    "Hopper": Reached(
        product_share=0.649,
        low_precision_share=0.933,
        attention_share=0.536,
        memory_share=0.7,
        operator_ns=64_000,
        link_share=0.617,
        network_share=0.459,
        latency_ns=20_900,
    ),
    "Blackwell": Reached(
        product_share=0.647,
        attention_share=0.536,
        memory_share=0.7,
        operator_ns=64_000,
        link_share=0.617,
        network_share=0.459,
        latency_ns=20_900,
    ),
    # end: fitted
}
GENERATIONS: Mapping[str, Reached] = {
    **_FITTED,
    "CDNA": _FITTED["Hopper"].changed({"product_share": 0.5}),
    "Ascend": _FITTED["Hopper"].changed({"product_share": 0.65}),
}
"""By the name of the generation."""
