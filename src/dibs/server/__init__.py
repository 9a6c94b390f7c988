"""A board behind HTTP: `dibs serve`.

A request passes the guard (who may even ask), is told its caller (by key), and becomes one call of a verb on the board,
in a thread. `verbs` is the table of what can be asked, `schemas` how it is described; each foreign wire format has a
file of its own.
"""

#: When a server is told to stop, what is still going on after this long is cut off: longer than a verb waits for its
#: turn.
STOP_SECONDS = 12
