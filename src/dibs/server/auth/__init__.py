"""Who calls, and what a key allows."""
