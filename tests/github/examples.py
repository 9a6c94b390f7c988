"""GitHub's own examples of webhooks, and its description of its API, from npm: pinned, fetched once, else skipped."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import jsonschema_rs
import pytest

from web.tools import packages
from web.tools.npm_registry import Unavailable

EXAMPLES, OPENAPI = "@octokit/webhooks-examples", "@octokit/openapi"
SCHEMAS = "#/components/schemas/"


class Example(NamedTuple):
    event: str
    payload: dict[str, Any]


def examples() -> list[Example]:
    """All of them; the test that asks is skipped if they cannot be fetched."""
    found = json.loads(_file(EXAMPLES, "api.github.com/index.json"))
    return [Example(event["name"], payload) for event in found for payload in event["examples"]]


class Description:
    """What GitHub says about the answers of its API."""

    def __init__(self, document: dict[str, Any]) -> None:
        self._document = document
        self._validators: dict[tuple[str, str, str], Any] = {}

    def errors(self, path: str, answer: Any, method: str = "get", status: int = 200) -> list[str]:
        """What is wrong with an answer to a request of this path, as the document has it."""
        content = self._document["paths"][path][method]["responses"][str(status)].get("content")
        if content is None:
            return [] if answer is None else [f"{method} {path} has no answer"]
        return self._problems((path, method, str(status)), content["application/json"]["schema"], answer)

    def request_errors(self, path: str, method: str, sent: Any) -> list[str]:
        """What is wrong with what a request sent."""
        body = self._document["paths"][path][method].get("requestBody")
        if body is None:
            return [] if sent is None else [f"{method} {path} takes no body"]
        return self._problems((path, method, "sent"), body["content"]["application/json"]["schema"], sent)

    def _problems(self, key: tuple[str, str, str], schema: Any, value: Any) -> list[str]:
        if key not in self._validators:
            names = set(_references(self._document, schema))
            schemas = {name: _plain(self._document["components"]["schemas"][name]) for name in names}
            whole = {**_plain(schema), "components": {"schemas": schemas}}
            self._validators[key] = jsonschema_rs.validator_for(whole)
        return [
            f"{key} {list(one.instance_path)}: {one.message}"[:300] for one in self._validators[key].iter_errors(value)
        ]

    def parameters(self, path: str) -> set[str]:
        known = self._document["components"]["parameters"]
        given = self._document["paths"][path]["get"]["parameters"]
        return {(known[one["$ref"].rpartition("/")[2]] if "$ref" in one else one)["name"] for one in given}


@functools.cache
def description() -> Description:
    return Description(json.loads(_file(OPENAPI, "generated/api.github.com.json")))


def _file(package: str, path: str) -> bytes:
    try:
        return packages.one_file(packages.pins("tests")[package], path).read_bytes()
    except Unavailable as error:
        pytest.skip(str(error))


def _references(document: dict[str, Any], schema: Any, seen: set[str] | None = None) -> Iterator[str]:
    """The names of all schemas that this one needs."""
    seen = set() if seen is None else seen
    if isinstance(schema, dict):
        name = str(schema.get("$ref", "")).removeprefix(SCHEMAS)
        if name and name not in seen:
            seen.add(name)
            yield name
            yield from _references(document, document["components"]["schemas"][name], seen)
    for value in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from _references(document, value, seen)


def _plain(schema: Any) -> Any:
    """A schema of OpenAPI 3.0 as JSON Schema: what is nullable may be null."""
    if isinstance(schema, list):
        return [_plain(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {name: _plain(value) for name, value in schema.items() if name not in ("nullable", "example", "examples")}
    return {"anyOf": [plain, {"type": "null"}]} if schema.get("nullable") is True else plain
