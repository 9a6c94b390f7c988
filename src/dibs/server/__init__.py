"""A board behind HTTP: `dibs serve`.

A request passes the guard (host, origin, size), is authenticated by its key, and becomes one call of a verb on the
board, in a thread. `dibs.verbs` is the table of verbs; `api` makes a route from each.
"""

#: How long a stopping server waits for open requests: longer than a verb waits for the store's lock.
STOP_SECONDS = 12
