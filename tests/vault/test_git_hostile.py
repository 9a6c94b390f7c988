"""A pulled repository is hostile: nothing of it runs, nothing of it leaves the vault, and the rest goes on working."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from dibs.store.vault.disk import Raced
from dibs.store.vault.git import liveness
from dibs.store.vault.safe_fs import FILE_BYTES_MAX
from dibs.system.git import GitFailed
from tests.vault.clones import files, git, make_clone, move, on_hub, opened, put

if TYPE_CHECKING:
    from pathlib import Path

    from dibs.store.vault.disk import Stamp
    from dibs.store.vault.git.sync import Sync


class Hostile:
    """A hub that checks nothing, a victim's clone of it, and commits of any shape put straight into the hub."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hub = folder / "hub.git"
        git(folder, "init", "--quiet", "--bare", "--initial-branch=main", str(self.hub))
        self.clone = make_clone(folder, "victim")
        put(self.clone, "Needs_Action/good.md", "# Good\n")
        self.sync: Sync = opened(self.clone)
        self.sync.sync()

    def blob(self, data: bytes) -> str:
        return self._object("blob", data)

    def tree(self, *entries: tuple[str, bytes, str]) -> str:
        """Entries as given, whatever git would say to them."""
        data = b"".join(mode.encode() + b" " + name + b"\0" + bytes.fromhex(oid) for mode, name, oid in entries)
        return self._object("tree", data)

    def _object(self, kind: str, data: bytes) -> str:
        words = ["git", "hash-object", "-t", kind, "--literally", "-w", "--stdin"]
        return subprocess.run(words, cwd=self.hub, input=data, check=True, capture_output=True).stdout.decode().strip()

    def push(self, *entries: tuple[str, bytes, str]) -> None:
        """On top of what the hub has: the entries of its root, and these."""
        listed = git(self.hub, "ls-tree", "main").splitlines()
        there = [
            (m, n.encode(), o)
            for m, o, n in ((x.split()[0].lstrip("0"), x.split()[2], x.split("\t")[1]) for x in listed)
        ]
        kept = [entry for entry in there if entry[1] not in {name for _, name, _ in entries}]
        tree = self.tree(*sorted([*kept, *entries], key=lambda entry: entry[1]))
        who = {
            f"GIT_{role}_{what}": "evil@example.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        commit = git(self.hub, "commit-tree", tree, "-p", "main", "-m", "evil", env=who).strip()
        git(self.hub, "update-ref", "refs/heads/main", commit)

    def goes_on_working(self) -> None:
        """A claim is confirmed, and the hostile things stay in the hub as they are: they are not ours to remove."""
        before = git(self.hub, "ls-tree", "-r", "-z", "main")
        move(self.clone, "Needs_Action/good.md", "In_Progress/a/good.md")
        self.sync.confirm()
        after = git(self.hub, "ls-tree", "-r", "-z", "main")
        gone = set(before.split("\0")) - set(after.split("\0"))
        assert [line.split("\t")[1] for line in gone] == ["Needs_Action/good.md"]
        assert opened(self.clone).sync().pushed is False


@pytest.fixture
def hostile(tmp_path: Path) -> Hostile:
    return Hostile(tmp_path)


def test_links_submodules_and_paths_that_lead_elsewhere_are_told_and_never_written(hostile: Hostile) -> None:
    text = hostile.blob(b"# Evil\n")
    link = hostile.blob(b"/etc/passwd")
    out = hostile.tree(("100644", b"evil.md", text))
    inner = hostile.tree(("100644", b"config", hostile.blob(b"[core]\n\tfsmonitor = touch ran\n")))
    needs = hostile.tree(
        ("100644", b"good.md", hostile.blob(b"# Good\n")),
        ("120000", b"link.md", link),
        ("100644", b"bad\xff.md", text),
        ("100644", b"new\nline.md", text),
        ("100644", b"fine.md", text),
    )
    hostile.push(
        ("40000", b"Needs_Action", needs),
        ("40000", b"..", out),
        ("40000", b".git", inner),
        ("40000", b".GIT", inner),
        ("40000", b".dibs", hostile.tree(("100644", b"vault.db", text))),
        ("120000", b"Done", hostile.blob(b"/tmp")),
        ("160000", b"module", "1" * 40),
        ("100644", b".gitmodules", hostile.blob(b'[submodule "m"]\n\tpath = module\n\turl = ext::sh -c touch% ran\n')),
    )
    config = (hostile.clone / ".git" / "config").read_bytes()
    told = hostile.sync.sync()
    assert files(hostile.clone) == {"Needs_Action/good.md": "# Good\n", "Needs_Action/fine.md": "# Evil\n"}
    assert len(told.findings) == 10, told.findings
    assert not os.path.lexists(hostile.clone / "Done")
    assert not (hostile.folder / "evil.md").exists()
    assert (hostile.clone / ".git" / "config").read_bytes() == config
    assert not (hostile.clone / ".dibs" / "vault.db").exists()
    hostile.goes_on_working()


@pytest.mark.parametrize("name", [b"dibs.toml", b"Dibs.TOML"])
def test_settings_do_not_come_with_a_push(hostile: Hostile, name: bytes) -> None:
    text = hostile.blob(b'[server]\nhost = "0.0.0.0"\n')
    within = hostile.tree(("100644", name, text), ("100644", b"a.txt", hostile.blob(b"a\n")))
    hostile.push(("100644", name, text), ("40000", b"docs", within))
    told = hostile.sync.sync()
    assert files(hostile.clone).keys() == {"Needs_Action/good.md", "docs/a.txt"}
    assert sorted(told.findings) == [
        f"{path + name.decode()!r} is a file of settings for dibs" for path in ("", "docs/")
    ]
    hostile.goes_on_working()


def test_settings_that_lie_here_stay_as_they_are_and_go_with_their_owners_git(hostile: Hostile) -> None:
    put(hostile.clone, "dibs.toml", "# mine\n")
    hostile.sync.sync()
    assert "dibs.toml" not in on_hub(hostile.folder)
    git(hostile.clone, "add", "dibs.toml")
    git(hostile.clone, "commit", "--quiet", "-m", "mine")
    hostile.sync.sync()
    assert on_hub(hostile.folder)["dibs.toml"] == "# mine\n"
    hostile.push(("100644", b"dibs.toml", hostile.blob(b"broken[")))
    hostile.sync.sync()
    assert files(hostile.clone)["dibs.toml"] == "# mine\n"
    hostile.goes_on_working()
    assert on_hub(hostile.folder)["dibs.toml"] == "broken["


def test_attributes_and_filters_run_nothing(hostile: Hostile) -> None:
    """Not even filters that the person has set up for other files."""
    ran = hostile.folder / "ran"
    for name in ("clean", "smudge", "process"):
        git(hostile.clone, "config", f"filter.lfs.{name}", f"touch {ran}; cat")
    git(hostile.clone, "config", "merge.evil.driver", f"touch {ran}")
    git(hostile.clone, "config", "core.fsmonitor", f"touch {ran}")
    git(hostile.clone, "config", "core.hooksPath", str(hostile.clone / "hooks"))
    hooks = (
        "post-checkout",
        "post-merge",
        "post-commit",
        "pre-commit",
        "pre-push",
        "reference-transaction",
        "post-index-change",
    )
    evil = hostile.blob(f"#!/bin/sh\ntouch {ran}\n".encode())
    hostile.push(
        ("100644", b".gitattributes", hostile.blob(b"* filter=lfs merge=evil\n")),
        (
            "40000",
            b"hooks",
            hostile.tree(*sorted((("100755", name.encode(), evil) for name in hooks), key=lambda e: e[1])),
        ),
    )
    hostile.sync.sync()
    put(hostile.clone, "note.md", "x\n")
    hostile.sync.sync()
    assert "hooks/pre-push" in files(hostile.clone)
    assert not ran.exists()
    hostile.goes_on_working()
    assert not ran.exists()


def test_names_that_differ_by_case_only_do_not_come_to_lie_side_by_side(hostile: Hostile) -> None:
    text = hostile.blob(b"# Other\n")
    needs = hostile.tree(
        ("100644", b"GOOD.md", text),
        ("100644", b"New.md", text),
        ("100644", b"good.md", hostile.blob(b"# Good\n")),
        ("100644", b"new.md", text),
    )
    hostile.push(("40000", b"Needs_Action", needs))
    told = hostile.sync.sync()
    there = files(hostile.clone)
    assert there["Needs_Action/good.md"] == "# Good\n"
    assert "Needs_Action/GOOD.md" not in there
    assert len({"Needs_Action/New.md", "Needs_Action/new.md"} & there.keys()) == 1
    assert len(told.findings) == 2
    hostile.goes_on_working()


def test_a_blob_over_the_size_is_not_written_whether_new_or_in_the_place_of_another(hostile: Hostile) -> None:
    large = hostile.blob(b"x" * (FILE_BYTES_MAX + 1))
    small = hostile.blob(b"# Small\n")
    hostile.push(("40000", b"Done", hostile.tree(("100644", b"a.md", small), ("100644", b"b.md", large))))
    told = hostile.sync.sync()
    assert "Done/a.md" in files(hostile.clone)
    assert "Done/b.md" not in files(hostile.clone)
    assert len(told.findings) == 1
    hostile.push(("40000", b"Done", hostile.tree(("100644", b"a.md", large), ("100644", b"b.md", small))))
    hostile.sync.sync()
    assert "Done/a.md" not in files(hostile.clone)
    assert files(hostile.clone)["Done/b.md"] == "# Small\n"
    hostile.goes_on_working()


def test_a_folder_that_is_a_link_here_is_not_written_through(hostile: Hostile) -> None:
    outside = hostile.folder / "outside"
    outside.mkdir()
    os.symlink(outside, hostile.clone / "Done")
    os.symlink(outside / "file", hostile.clone / "note.md")
    text = hostile.blob(b"# Evil\n")
    hostile.push(("40000", b"Done", hostile.tree(("100644", b"a.md", text))), ("100644", b"note.md", text))
    told = hostile.sync.sync()
    assert os.listdir(outside) == []
    assert len(told.findings) == 2
    hostile.goes_on_working()


def test_a_file_becomes_a_folder_and_back(hostile: Hostile) -> None:
    text = hostile.blob(b"text\n")
    hostile.push(("100644", b"thing", text))
    hostile.sync.sync()
    hostile.push(("40000", b"thing", hostile.tree(("100644", b"inner.txt", text))))
    hostile.sync.sync()
    assert files(hostile.clone)["thing/inner.txt"] == "text\n"
    hostile.push(("100644", b"thing", text))
    told = hostile.sync.sync()
    assert told.findings, "the folder stays where it is"
    hostile.goes_on_working()


def test_a_repository_within_is_not_looked_into(hostile: Hostile) -> None:
    git(hostile.clone, "init", "--quiet", "inner")
    put(hostile.clone, "inner/Needs_Action/x.md", "x")
    bare = hostile.clone / "bare"
    bare.mkdir()
    git(bare, "init", "--quiet", "--bare", ".")
    (bare / "config").write_text("[core]\n\tfsmonitor = touch ran\n\tbare = true\n")
    hostile.sync.sync()
    assert "inner/Needs_Action/x.md" not in on_hub(hostile.folder)
    assert not (bare / "ran").exists()


def test_what_lies_here_and_is_no_file_stays_here(hostile: Hostile) -> None:
    os.mkfifo(hostile.clone / "Needs_Action" / "fifo.md")
    os.symlink("/etc/passwd", hostile.clone / "Needs_Action" / "link.md")
    put(hostile.clone, "Needs_Action/hard.md", "x")
    os.link(hostile.clone / "Needs_Action" / "hard.md", hostile.clone / "hard2.md")
    (hostile.clone / "Needs_Action" / "large.md").write_bytes(b"x" * (FILE_BYTES_MAX + 1))
    hostile.sync.sync()
    assert set(on_hub(hostile.folder)) == {"Needs_Action/good.md"}
    hostile.goes_on_working()


@pytest.mark.parametrize("remote", ["ext::sh -c 'touch ran'", "--upload-pack=touch ran"])
def test_a_remote_is_an_address_and_nothing_that_runs(hostile: Hostile, remote: str) -> None:
    git(hostile.clone, "config", "branch.main.remote", remote)
    from dibs.errors import StoreUnavailable

    with pytest.raises(StoreUnavailable):
        opened(hostile.clone).sync()
    assert not (hostile.clone / "ran").exists()


def test_an_address_with_a_password_is_not_told(hostile: Hostile) -> None:
    with pytest.raises(GitFailed) as failed:
        hostile.sync.repository.git.run("fetch", "https://me:secret@127.0.0.1:1/x.git")
    assert "secret" not in str(failed.value)


def test_another_repository_in_the_environment_is_not_ours(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    """As it is when a hook of the person's runs dibs."""
    other = make_clone(hostile.folder, "other")
    before = (other / ".git" / "index").read_bytes()
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    put(hostile.clone, "note.md", "x\n")
    opened(hostile.clone).sync()
    monkeypatch.undo()
    assert "note.md" in on_hub(hostile.folder)
    assert (other / ".git" / "index").read_bytes() == before


@pytest.mark.parametrize(
    "text",
    [
        '{"counter": 1e999}',
        '{"counter": NaN}',
        '{"counter": "7"}',
        '{"counter": true}',
        '{"counter": -1}',
        '{"counter": ' + "9" * 5000 + "}",
        '{"counter": ' + "[" * 100_000,
        "[1]",
        "7",
        "",
    ],
    ids=lambda text: text[:20],
)
def test_a_sign_of_life_that_is_none_says_nothing(hostile: Hostile, text: str) -> None:
    put(hostile.clone, ".dibs-sessions/s.json", text)
    assert liveness.counter(hostile.sync.files, "s") is None


def test_a_sign_of_life_that_never_holds_still_says_nothing(hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(path: str) -> tuple[bytes, Stamp]:
        raise Raced(path)

    monkeypatch.setattr(hostile.sync.files, "read", read)
    assert liveness.counter(hostile.sync.files, "s") is None
    liveness.publish(hostile.sync.files, [], ["s"])
