"""What shows that a store keeps the contract: shipped, so that a store of your own can be held to it too.

In a test module of yours:

    from dibs.testing.conformance import *

    @pytest.fixture
    def harness(tmp_path):
        clock = FileClock(tmp_path / "clock")
        with MyHarness("my_package.opening:open_board", {"url": ..., "clock": clock.path}, clock, tmp_path) as harness:
            yield harness

`MyHarness` is a `Harness` that makes another board `elsewhere`; `sqlite` and `postgres` are the examples. A harness
opens handles on one set of data, here and in other processes, under a clock that tests can set. `conformance`
is the suite, one module a group. `invariants` reads a whole board and lists what is wrong with it; `history` judges a
recorded history of concurrent calls; `reference` is a small model of the verbs, `machine` compares a board with it.
None of these shares code with `dibs.rules`. `broken` holds stores with one mistake each, which the suite must find.
"""
