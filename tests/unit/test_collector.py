"""Garbage is collected again after a long answer, however it ended."""

from __future__ import annotations

import gc

import pytest

from dibs.system import collector


def test_the_collector_is_paused_for_the_block_only() -> None:
    with collector.Paused():
        assert not gc.isenabled()
        with collector.Paused():
            assert not gc.isenabled()
        assert not gc.isenabled(), "a block within another resumed it"
    assert gc.isenabled()


def test_an_error_resumes_the_collector() -> None:
    with pytest.raises(ValueError, match="on purpose"), collector.Paused():
        raise ValueError("on purpose")
    assert gc.isenabled()


def test_a_program_without_the_collector_keeps_it_off() -> None:
    gc.disable()
    try:
        with collector.Paused():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
