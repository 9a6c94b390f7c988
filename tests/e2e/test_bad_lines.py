"""Bad inputs are answered as in the file that people read, and change nothing."""

from __future__ import annotations

import re
from pathlib import Path

from tests.e2e import bad_lines
from tests.e2e.conftest import Dibs, exported


def test_a_hundred_bad_inputs_are_answered_as_written(bare: Dibs, tmp_path: Path) -> None:
    folder = tmp_path / "bad"
    folder.mkdir()
    answers = bad_lines.Answers(folder, lambda words, folder, env: bare(*words, folder=folder, environment=env))
    board = Dibs(folder / "work", bare.environment)
    before = exported(board)
    assert answers.text() == bad_lines.FILE.read_text(), "see tests/e2e/bad_lines.py"
    # Claims that were refused are counted; nothing else has changed.
    kept = re.compile(r'^{"record": "(?!activity|session)', re.MULTILINE)
    assert kept.findall(exported(board)) == kept.findall(before)


def test_every_answer_is_a_refusal_in_one_line(bare: Dibs) -> None:
    text = bad_lines.FILE.read_text()
    answers = re.findall(r"^\$ dibs .*?^\[\d+\]$", text, re.MULTILINE | re.DOTALL)
    assert len(answers) >= 100
    for answer in answers:
        lines = answer.splitlines()
        said = [line for line in lines if line.startswith("dibs: ")]
        assert len(said) == 1, answer
        assert all(line.startswith("usage: ") for line in lines[lines.index(said[0]) + 1 : -1]), answer
        assert lines[-1] not in ("[0]", "[141]"), answer
        # Nothing of the inside: names of functions, exceptions, numbers with exponents.
        assert not re.search(r"\w\(\)|Error\b|e\+\d\d|_seconds", said[0]), answer
