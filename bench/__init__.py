"""Measurements: `make bench` runs them all, `python -m bench NAME` one. They compare side by side, in interleaved
rounds, and report medians; nothing here is asserted, and no test depends on the clock.
"""
