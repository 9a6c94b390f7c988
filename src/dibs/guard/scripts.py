"""The hook scripts that `dibs guard install` writes: small, POSIX sh, and harmless without dibs.

Each first runs the hook that was there before, with the same arguments and input, and stops if that one refuses. Only a
refusal of dibs stops git: an error of dibs does not. A shared repository is stricter: its `pre-receive` refuses what it
cannot verify.
"""

from __future__ import annotations

from hashlib import sha256
from shlex import quote

from dibs.errors import NotClaimOwner, StoreUnavailable
from dibs.guard.git import AMENDED_SECONDS, SCISSORS
from dibs.guard.trailers import PATTERN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

#: The line by which a script of dibs is recognized.
MARK = "# Installed by `dibs guard install`; `dibs guard remove` restores what was here before."
#: The suffix of a hook that was there before, in the same folder. It runs by a link that has its own name.
BEFORE = ".before-dibs"
REFUSED = NotClaimOwner.exit_code
CANNOT_KNOW = StoreUnavailable.exit_code

PREPARE, MESSAGE, PATCH = "prepare-commit-msg", "commit-msg", "applypatch-msg"
COMMIT, PUSH, RECEIVE = "pre-commit", "pre-push", "pre-receive"
#: Hooks of a work tree; `pre-commit` only if it is asked for. Hooks of a shared repository without one.
CLIENT = (PREPARE, MESSAGE, PATCH, PUSH)
HUB = (RECEIVE,)
#: Every other hook of git that is found by its name, so that `core.hooksPath` can lead to the former folder.
OTHERS = (
    *("pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit", "post-commit"),
    *("pre-rebase", "post-checkout", "post-merge", "post-rewrite", "pre-auto-gc", "post-index-change"),
    *("reference-transaction", "pre-receive", "update", "post-receive", "post-update", "sendemail-validate"),
    *("p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit"),
)
#: If these hooks exist, git behaves differently: they are passed on only if they exist.
DECISIVE = ("push-to-checkout", "proc-receive")

#: Begins the line with the digest of a script, which shows whether it was edited.
_SEAL = "# sha256: "
_HEAD = f"#!/bin/sh\n{MARK}\n"
_FORMER = 'if [ -f "$former" ] && [ -x "$former" ]; then {feed}"$former" "$@" || exit $?; fi\n'
_INPUT = 'input=$(cat)\nfeed() { [ -z "$input" ] || printf \'%s\\n\' "$input"; }\n'
_FIND = "dibs=$(command -v dibs) || dibs={path}\n"
#: Whether the message names a claim; a diff below it may show one.
_NAMED = f"sed -n '/{SCISSORS}/q;p' \"$1\" | LC_ALL=C grep -Eq '{PATTERN}'"
#: Where nothing is to be added, dibs need not start.
_SHORTCUTS = {
    PREPARE: f'[ ! -e "${{1%/*}}/CHERRY_PICK_HEAD" ] || {_NAMED} || exit 0\n',
    MESSAGE: f"{_NAMED} && exit 0\n",
    PATCH: f'[ ! -e "${{1%/*}}/rebasing" ] || {_NAMED} || exit 0\n',
}
#: Whether the commit squashes some, or replaces one: their trailers are kept, whoever commits.
_KEEPS = f"""keeps() {{
    [ ! -e "${{1%/*}}/SQUASH_MSG" ] || return 0
    at=${{GIT_AUTHOR_DATE#@}} at=${{at%% *}}
    [ -n "$at" ] && [ "$at" = "$(git log -1 --no-show-signature --format=%at HEAD 2>/dev/null)" ] &&
        [ "$at" -le $(($(date +%s) - {AMENDED_SECONDS:.0f})) ]
}}
"""
_MISSING = "if [ ! -x \"$dibs\" ]; then echo 'dibs guard: dibs is not installed; {what}' >&2; exit {code}; fi\n"


def passing_on(former: str) -> str:
    """The script of a hook that only runs the former one."""
    return _sealed(f'{_HEAD}former={former}\n[ ! -f "$former" ] || [ ! -x "$former" ] || exec "$former" "$@"\n')


def script(hook: str, *, former: str, path: str, store: str | None, variables: Sequence[str]) -> str:
    """The script of a hook. `former` is a word of the shell, `path` where dibs is if the PATH does not have it. One of
    `variables` is set wherever a session commits, unless it is that of a terminal."""
    feed = "feed | " if hook in (PUSH, RECEIVE) else ""
    what, code = ("the push is refused", CANNOT_KNOW) if hook == RECEIVE else ("nothing is checked", 0)
    call = f'{feed}"$dibs" guard hook {hook}{"" if store is None else " --store " + quote(store)} -- "$@"'
    lines = [_HEAD, f"former={former}\n", _INPUT if feed else "", _FORMER.format(feed=feed)]
    if hook in _SHORTCUTS:
        session = "".join(f"${{{name}-}}" for name in variables)
        keeps, define = ('keeps "$1" || ', _KEEPS) if hook == PREPARE else ("", "")
        lines += [define, f'[ -n "{session}" ] || [ -t 0 ] || [ -t 2 ] || {keeps}exit 0\n', _SHORTCUTS[hook]]
    lines += [_FIND.format(path=quote(path)), _MISSING.format(what=what, code=code), call]
    # After an error of dibs, or in a version without this command, git goes on.
    lines.append("\n" if hook == RECEIVE else f"\n[ $? -ne {REFUSED} ] || exit 1\n")
    return _sealed("".join(lines))


def is_sealed(text: str) -> bool:
    """Whether this is a script of dibs that nobody changed since."""
    return _sealed("".join(line for line in text.splitlines(keepends=True) if not line.startswith(_SEAL))) == text


def _sealed(text: str) -> str:
    """The script with its digest in the third line."""
    return text.replace(_HEAD, f"{_HEAD}{_SEAL}{sha256(text.encode('utf-8', 'surrogateescape')).hexdigest()}\n", 1)
