"""Those who take part in `bench.postgres`, and what they have in common: worker processes, a window in which their work
counts, a fresh set of things to do before every run.
"""
