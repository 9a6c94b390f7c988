"""A board kept in tables: what SQLite and PostgreSQL have in common.

The verbs that load rows, have the rules decide and write the outcome stand here once. A store brings its statements,
under the same names, and a `Transaction` that runs them; what it locks and when is its own.
"""
