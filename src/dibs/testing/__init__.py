"""The kit that proves a store: shipped, so that a store of your own can be tested as dibs's own stores are.

`conformance` is the suite, one module for each group of tests. A test takes a `Harness` (in `harness`), which opens
boards on one set of data, in this process and in others (`actors`), under a clock that tests can set (`clock`).
`invariants` reads a whole board and lists what is wrong with it; `history` judges a recorded history of concurrent
calls. Neither shares code with `dibs.rules`. docs/guides/testing-a-store.md shows how a store is written and tested.
"""
