"""A bare repository for clones of a vault to push to, which does not lose what it has acknowledged.

By default git answers a push before its objects and refs are on disk: a power cut takes back what was confirmed, and
two agents hold one item. This one syncs before it answers, checks what comes in, and lets nobody rewrite or remove.
"""

from __future__ import annotations

import os

from dibs.errors import Invalid, StoreUnusable
from dibs.store.vault.git.command import Git, GitFailed

BRANCH = "main"
SETTINGS = {
    "core.fsync": "all",
    "core.fsyncMethod": "fsync",
    "receive.fsckObjects": "true",
    "receive.denyNonFastForwards": "true",
    "receive.denyDeletes": "true",
}
#: The client waits for it to end: what it syncs, the names in folders, is on disk before the push is acknowledged.
POST_RECEIVE = """\
#!/bin/sh
sync -f . 2>/dev/null || sync
"""
#: A git that was killed here has left its locks, and with them no push would be taken any more. A lock is left alone
#: while a git lives that works here and is as old, and for some seconds, since not every one can be seen.
PRE_RECEIVE = """\
#!/bin/sh
for lock in refs/heads/*.lock HEAD.lock packed-refs.lock; do
    [ -e "$lock" ] || continue
    seconds=$(git config --type=int --get dibs.lockSeconds || echo 10)
    made=$(stat -c %Y "$lock" 2>/dev/null || stat -f %m "$lock" 2>/dev/null) || continue
    age=$(($(date +%s) - made))
    [ "$age" -ge "$seconds" ] || continue
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/cwd" 2>/dev/null)" = "$(pwd -P)" ] || continue
        case $(cat "$process/comm" 2>/dev/null) in git*) ;; *) continue ;; esac
        lived=$(ps -o etimes= -p "${process#/proc/}" 2>/dev/null) || lived=$age
        [ "$lived" -ge $((age - 1)) ] && continue 2
    done
    rm -f "$lock"
done
"""
HOOKS = {"pre-receive": PRE_RECEIVE, "post-receive": POST_RECEIVE}


def make(path: str) -> bool:
    """Make one, or bring one that is there up to this; whether it is new."""
    path = os.path.abspath(path)
    new = not os.path.exists(os.path.join(path, "HEAD"))
    if new and os.path.lexists(path) and (not os.path.isdir(path) or os.listdir(path)):
        raise Invalid(f"{path} is there already and is no bare repository", field="path")
    try:
        if new:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Git(os.path.dirname(path)).run(
                "init", "--quiet", "--bare", "--template=", f"--initial-branch={BRANCH}", "--", path
            )
        git = Git(path)
        git.settle(path)
        for name, value in SETTINGS.items():
            git.run("config", name, value)
    except FileNotFoundError as error:
        raise StoreUnusable("there is no git: install it", path=path) from error
    except GitFailed as failed:
        raise StoreUnusable(f"{path} cannot be made a hub: {failed.said}", path=path) from failed
    for name, text in HOOKS.items():
        _install_hook(os.path.join(path, "hooks", name), text)
    return new


def _install_hook(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            if file.read() != text:
                raise Invalid(f"{path} is there already and is not ours: call it from ours, elsewhere", field="path")
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        os.fchmod(file.fileno(), 0o755)
