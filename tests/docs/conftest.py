"""One board for all documents that are compared with it."""

from __future__ import annotations

import pytest

from tests.docs.board import Led


@pytest.fixture(scope="session")
def led(tmp_path_factory: pytest.TempPathFactory) -> Led:
    return Led(tmp_path_factory.mktemp("board"))
