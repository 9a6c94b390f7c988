"""What a verb does, decided once: pure functions from rows and the time to changes, history and an answer.

A store loads the rows, calls a rule inside its transaction, and writes what the rule says. Nothing here reads a
clock, touches a disk or knows a database. `table` is the transition table; `claiming`, `holding` and `ending`
follow an item on its way; `items` is what people do to items; `fold` turns a history back into a state.
"""
