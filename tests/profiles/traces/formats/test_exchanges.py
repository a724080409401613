"""Exchanges of tokens in a layer's pass, and what runs between them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.model import PassHalves
from evenflow.profiles.traces.formats.exchanges import pass_halves, union_ns
from evenflow.profiles.traces.formats.kernel_names import Doing, kernel_doing

ATTENTION, EXPERTS, RESIDUAL = (0, 30, False), (60, 100, False), (125, 130, False)
COUNTS, DISPATCH, COMBINE = (30, 32, True), (40, 60, True), (100, 120, True)


def test_the_experts_run_between_the_two_exchanges():
    """The counts of tokens go ahead of them; in 32 to 40 the device waits."""
    layer = [ATTENTION, COUNTS, DISPATCH, EXPERTS, COMBINE, RESIDUAL]
    assert pass_halves(layer, is_forward=True) == PassHalves(dispatch_ns=22, mlp_ns=40, combine_ns=20)
    assert pass_halves(layer[::-1], is_forward=False) == PassHalves(dispatch_ns=20, mlp_ns=40, combine_ns=22)


def test_an_exchange_counts_as_far_as_nothing_is_computed_beside_it():
    shared_expert = (45, 55, False)
    layer = [ATTENTION, DISPATCH, shared_expert, EXPERTS, COMBINE]
    assert pass_halves(layer, is_forward=True) == PassHalves(dispatch_ns=10, mlp_ns=40, combine_ns=20)


@pytest.mark.parametrize(
    "layer",
    [[], [ATTENTION], [ATTENTION, DISPATCH, EXPERTS], [DISPATCH, COMBINE], [DISPATCH, (70, 70, False), COMBINE]],
)
def test_nothing_is_known_apart_without_two_exchanges_and_work_between(layer):
    assert pass_halves(layer, is_forward=True) is None


SPANS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 9), st.booleans()).map(
        lambda span: (span[0], span[0] + span[1], span[2])
    ),
    max_size=9,
)


@given(SPANS, st.booleans())
def test_parts_are_parts_and_exchanges_are_what_is_not_computed(spans, is_forward):
    halves = pass_halves(spans, is_forward=is_forward)
    if halves is None:
        return
    computed_ns = union_ns(span for span in spans if not span[2])
    assert halves.exchange_ns == union_ns(spans) - computed_ns
    assert 0 < halves.mlp_ns <= computed_ns
    other = pass_halves(spans, is_forward=not is_forward)
    assert other == PassHalves(dispatch_ns=halves.combine_ns, mlp_ns=halves.mlp_ns, combine_ns=halves.dispatch_ns)


@pytest.mark.parametrize(
    ("name", "doing"),
    [
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", Doing.SEND_RECEIVE),
        ("ncclKernel_AllToAll_RING_LL", Doing.EXCHANGE),
        ("hcom_alltoallv__123_0", Doing.EXCHANGE),
        ("hcom_allToAllV__1", Doing.EXCHANGE),
        ("void deep_ep::intranode::dispatch<8, 768, 16384>(int4*)", Doing.EXCHANGE),
        ("void deep_ep::internode::cached_notify_combine(int)", Doing.EXCHANGE),
        ("void dpsk::ep::internode::combine<false, 8, __nv_bfloat16, 8, 2, 16, 2>", Doing.EXCHANGE),
        ("void hybrid_ep::dispatch_kernel<4>", Doing.EXCHANGE),
        ("void dpsk::ep::cuda::get_dispatch_layout<256, 32, 8>(long const*)", Doing.COMPUTATION),
        ("void deep_ep::layout::get_dispatch_layout<256, 32, 8>", Doing.COMPUTATION),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", Doing.COLLECTIVE),
        ("hcom_send__5", Doing.MESSAGE),
        ("HcclAllGather", Doing.COLLECTIVE),
        ("void cutlass::Kernel2<cutlass_80_tensorop_bf16>", Doing.COMPUTATION),
        ("combine_masks_kernel", Doing.COMPUTATION),
        ("void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128>>", Doing.FORWARD),
        ("void layer_norm::ln_bwd_kernel<float>", Doing.BACKWARD),
        ("cuda::swiglu_forward_backward_with_weight_impl", Doing.COMPUTATION),
    ],
)
def test_what_kernels_do_by_their_names(name, doing):
    assert kernel_doing(name) is doing


def test_a_trace_says_which_collective_a_send_and_receive_is():
    send = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
    assert kernel_doing(send, collective="all_to_allv") is Doing.EXCHANGE
    assert kernel_doing(send, collective="recv") is Doing.MESSAGE
