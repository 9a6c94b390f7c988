"""A state machine that drives a board and the reference model side by side."""
