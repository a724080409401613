"""The compiler of inner loops: when it compiles, what happens meanwhile, and where nothing can be kept."""

import numba
import pytest
from numba.extending import overload

from evenflow.simulate import compiled, compiles_now, compiling, is_compiling, is_kept


def double(number: int) -> int:
    return 2 * number


def test_compiling_is_known_while_it_lasts_and_only_then():
    seen = []

    def probe() -> int:
        raise AssertionError("the compiler takes what stands for it")

    @overload(probe)
    def while_compiling():
        seen.append(is_compiling() and compiles_now())
        return lambda: 7

    compiled.compiled(double)  # from here on the compiler tells

    @numba.njit
    def machine_code() -> int:
        return probe() + 1

    assert not is_compiling()
    assert machine_code() == 8
    assert seen
    assert all(seen)
    assert not is_compiling()


def test_reading_from_the_disk_is_no_compiling():
    """What a thread does before its first loop is compiled is reading; behind it, it goes on to compile."""
    compiled.compiled(double)
    with compiling():
        assert is_compiling()
        assert not compiles_now()
        numba.njit(lambda number: number + 1)(1)
        assert compiles_now()
    with compiling():
        assert not compiles_now()
    assert not is_compiling()


def test_compiled_again_is_the_same_machine_code():
    assert compiled.compiled(double) is compiled.compiled(double)
    assert compiled.compiled(double)(21) == 42


def test_large_loops_run_as_they_are_while_another_thread_compiles(monkeypatch: pytest.MonkeyPatch):
    size = compiled.COMPILE_FROM_ACTIONS
    assert compiled.for_size(double, size) is not double
    monkeypatch.setattr(compiled._Compiling, "num_functions", 1)
    assert compiled.for_size(double, size) is double


def test_without_a_folder_for_machine_code_loops_are_compiled_and_not_kept(monkeypatch: pytest.MonkeyPatch):
    def halve(number: int) -> int:
        return number // 2

    njit = numba.njit

    def njit_without_folder(*arguments, cache=False, **options):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return njit(*arguments, **options)

    monkeypatch.setattr(numba, "njit", njit_without_folder)
    monkeypatch.setattr(compiled._Compiling, "is_kept", True)
    assert compiled.compiled(halve)(42) == 21
    assert not is_kept()
