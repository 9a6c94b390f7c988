"""What the SQLite and PostgreSQL stores share: the verbs that load rows, call the rules and write their steps.

A store supplies its statements, under the same names, and a `Transaction` that runs them and takes its locks.
"""
