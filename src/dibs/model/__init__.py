"""The nouns of dibs, as values: the records that a board keeps, and the results of the verbs.

Instants are integer milliseconds since the epoch by the store's clock, in fields that end in `_at` (and `not_before`).
Durations are seconds, in fields that end in `_seconds`. Values are frozen; a change is a new value.
"""

from __future__ import annotations

# Every name of both modules belongs to the model. Each value is defined after the values that it contains: the server's
# schemas are made in this order.
from dibs.model.records import *
from dibs.model.results import *

# Not the names of `dibs.model.dashboard`: no claim needs them.
