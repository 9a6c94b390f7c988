"""Ids that are made from titles: `fix-login`, and for further items of that title `fix-login-2`, `fix-login-3`.

An id is chosen inside the transaction that adds its item, so that no other item has it. The table `id_numbers` has the
highest number that was chosen for some words. It is only a hint: without it, or if items have such ids already, an
unused number is found with a number of look-ups that grows with the logarithm of theirs.
"""

from __future__ import annotations

from dibs.randomness import id_from_title, words_of_title

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Iterable

    from dibs.model import NewItem
    from dibs.store.sql.transaction import Transaction


def lock(t: Transaction, items: Iterable[NewItem]) -> None:
    """Exclude other transactions that choose an id for these titles, in the order that all transactions use."""
    for words in sorted({words_of_title(one.title) for one in items if not one.id}):
        t.lock("lock_id_words", words=words)


def choose(t: Transaction, title: str, given: Container[str]) -> str:
    """An id for a new item of this title, which no item has, and none of `given`, the ids in the same call."""
    if t.has_clones:
        return id_from_title(title)
    words = words_of_title(title)

    def is_taken(number: int) -> bool:
        id = _numbered(words, number)
        return id in given or not t.is_free_id(id)

    if not is_taken(1):
        return words
    taken, step = int(t.scalar("id_number", words=words) or 1), 1
    while is_taken(taken + step):
        taken, step = taken + step, step * 2
    free = taken + step
    while free - taken > 1:
        middle = (taken + free) // 2
        taken, free = (middle, free) if is_taken(middle) else (taken, middle)
    t.run("put_id_number", {"words": words, "number": free})
    return _numbered(words, free)


def _numbered(words: str, number: int) -> str:
    return words if number == 1 else f"{words}-{number}"
