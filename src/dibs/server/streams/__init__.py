"""Requests that stay open: one feed wakes all streams and waiting requests."""
