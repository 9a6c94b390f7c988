"""Google's Gemini API: Gemini CLI."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.kit.agents.apis import Events
from tests.kit.agents.script import Json, Turn


class Gemini:
    @staticmethod
    def turns(body: Json) -> Iterator[Turn]:
        for content in body["contents"]:
            if content.get("role") == "model":
                yield Turn("model")
                continue
            for part in content["parts"]:
                if "functionResponse" in part:
                    yield Turn("result", json.dumps(part["functionResponse"]["response"]))
                elif "text" in part:
                    yield Turn("user", part["text"])

    @staticmethod
    def whole(step: Json, body: Json, number: int) -> Json:
        parts: list[Json] = [{"text": step["text"]}] if "text" in step else []
        parts += [{"functionCall": {"name": each["tool"], "args": each["arguments"]}} for each in step.get("calls", ())]
        return {
            "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15},
        }

    @classmethod
    def events(cls, step: Json, body: Json, number: int) -> Events:
        return [("", cls.whole(step, body, number))]
