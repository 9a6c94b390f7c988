"""The PostgreSQL store: one board for many machines."""
