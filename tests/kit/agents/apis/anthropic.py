"""Anthropic's Messages API: Claude Code."""

from __future__ import annotations

import json
from collections.abc import Iterator

from tests.kit.agents.apis import Events, texts
from tests.kit.agents.script import Json, Turn


class Messages:
    @staticmethod
    def turns(body: Json) -> Iterator[Turn]:
        for message in body["messages"]:
            if message["role"] == "assistant":
                yield Turn("model")
                continue
            content = message["content"]
            for part in content if isinstance(content, list) else []:
                if part["type"] == "tool_result":
                    yield Turn("result", "\n".join(texts(part.get("content"))))
            yield from (Turn("user", text) for text in texts(content))

    @staticmethod
    def whole(step: Json, body: Json, number: int) -> Json:
        calls = step.get("calls", ())
        content: list[Json] = [{"type": "text", "text": step["text"]}] if "text" in step else []
        content += [
            {"type": "tool_use", "id": f"toolu_{number}_{index}", "name": each["tool"], "input": each["arguments"]}
            for index, each in enumerate(calls)
        ]
        return {
            "id": f"msg_{number}",
            "type": "message",
            "role": "assistant",
            "model": body["model"],
            "content": content,
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 10, "output_tokens": 5},
        }

    @classmethod
    def events(cls, step: Json, body: Json, number: int) -> Events:
        whole = cls.whole(step, body, number)
        events: list[Json] = [{"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}}]
        for index, block in enumerate(whole["content"]):
            if block["type"] == "text":
                empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
            else:
                arguments = json.dumps(block["input"])
                empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": arguments}
            events += [
                {"type": "content_block_start", "index": index, "content_block": empty},
                {"type": "content_block_delta", "index": index, "delta": delta},
                {"type": "content_block_stop", "index": index},
            ]
        end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        events += [{"type": "message_delta", "delta": end, "usage": whole["usage"]}, {"type": "message_stop"}]
        return [(event["type"], event) for event in events]
