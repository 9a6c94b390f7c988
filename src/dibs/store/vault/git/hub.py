"""A hub: a bare repository for the clones of a vault, which never loses an acknowledged push.

By default git answers a push before its objects and refs are on disk: a power cut would revert a confirmed claim, and
two agents would hold one item. A hub syncs before it answers, checks incoming objects, and refuses to rewrite history.
"""

from __future__ import annotations

import os

from dibs.errors import Invalid, StoreUnusable
from dibs.system.git import Git, GitFailed, GitNotStarted

BRANCH = "main"
SETTINGS = {
    "core.fsync": "all",
    "core.fsyncMethod": "fsync",
    "receive.fsckObjects": "true",
    "receive.denyNonFastForwards": "true",
    "receive.denyDeletes": "true",
}
#: The client waits for this hook: the directory entries that it syncs are on disk before the push is acknowledged.
POST_RECEIVE = """\
#!/bin/sh
sync -f . 2>/dev/null || sync
"""
#: The lock of a killed git would block every push. The hook removes a lock unless a git process that is at least as old
#: runs here, and only after some seconds, since not every process is visible. It reads /proc because a small
#: container has no `ps`.
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
        started=$(sed 's/.*) //' "$process/stat" 2>/dev/null | cut -d ' ' -f 20)
        [ -n "$started" ] || continue
        lived=$(($(cut -d . -f 1 /proc/uptime) - started / $(getconf CLK_TCK)))
        [ "$lived" -ge $((age - 1)) ] && continue 2
    done
    rm -f "$lock"
done
"""
HOOKS = {"pre-receive": PRE_RECEIVE, "post-receive": POST_RECEIVE}


def make(path: str) -> bool:
    """Make a hub, or configure an existing bare repository as one; return whether it is new."""
    path = os.path.abspath(path)
    new = not os.path.exists(os.path.join(path, "HEAD"))
    if new and os.path.lexists(path) and (not os.path.isdir(path) or os.listdir(path)):
        raise Invalid(f"{path} exists already and is not a bare repository", field="path")
    try:
        if new:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            Git(os.path.dirname(path)).run(
                "init", "--quiet", "--bare", "--template=", f"--initial-branch={BRANCH}", "--", path
            )
        git = Git(path)
        git.pin(path)
        for name, value in SETTINGS.items():
            git.run("config", name, value)
    except GitNotStarted as error:
        raise StoreUnusable(f"{path} cannot be made a hub: {error.strerror}", path=path) from error
    except GitFailed as failed:
        raise StoreUnusable(f"{path} cannot be made a hub: {failed.stderr}", path=path) from failed
    for name, text in HOOKS.items():
        _install_hook(os.path.join(path, "hooks", name), text)
    return new


def _install_hook(path: str, text: str) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if os.path.lexists(path):
        with open(path, encoding="utf-8", errors="replace") as file:
            if file.read() != text:
                raise Invalid(
                    f"{path} exists already and is not a hook of dibs; move it away and try again", field="path"
                )
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
        os.fchmod(file.fileno(), 0o755)
