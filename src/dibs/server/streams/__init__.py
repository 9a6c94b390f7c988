"""Live events: one feed, many subscribers."""
