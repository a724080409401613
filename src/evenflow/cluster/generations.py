"""What training reaches on each generation of accelerators, where nobody has measured.

``python -m benchmarks defaults --write`` fits Ampere, Volta, Hopper and Blackwell to published runs. There are none of
CDNA and Ascend with a stated step: they reach of products what their vendors' and others' tests of large ones do, and
the rest is that of Hopper. [MI300X: 45 to 55 % of the peak, hipBLASLt; Ascend 910: 60 to 70 %, arXiv:2506.12708]
"""

from collections.abc import Mapping

from evenflow.cluster.reached import Reached

GENERATIONS: Mapping[str, Reached] = {
    # begin: fitted
    "Volta": Reached(product_share=0.7),
    "Ampere": Reached(product_share=0.79),
    "Hopper": Reached(product_share=0.69, attention_share=0.55, network_share=0.8),
    "Blackwell": Reached(product_share=0.65, attention_share=0.55, network_share=0.8),
    # end: fitted
    "CDNA": Reached(product_share=0.5, attention_share=0.55, network_share=0.8),
    "Ascend": Reached(product_share=0.65, attention_share=0.55, network_share=0.8),
}
"""By the name of the generation."""
