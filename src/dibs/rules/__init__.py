"""The rules: pure functions that decide what a verb does, from rows and the time.

A store loads the rows, calls a rule inside its transaction, and writes the steps that the rule returns. Nothing here
reads a clock, touches a disk or knows a database. `table` has the transitions, `decision` the shape of every answer;
`claiming`, `fencing`, `ending`, `queueing` and `overdue` follow an item on its way; `items` and `reviewing` are what
people do; `replay` turns a history back into an item.
"""
