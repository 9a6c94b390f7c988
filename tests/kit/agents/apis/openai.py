"""OpenAI's two APIs: Responses (Codex), and Chat Completions (goose, Copilot, opencode)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import groupby

from tests.kit.agents.apis import Events, texts
from tests.kit.agents.script import Json, Turn


class Responses:
    @staticmethod
    def turns(body: Json) -> Iterator[Turn]:
        turns = [turn for item in body["input"] for turn in _turns_of_item(item)]
        # The items of one answer stand side by side.
        for role, group in groupby(turns, key=lambda turn: turn.role):
            yield from [Turn("model")] if role == "model" else group

    @staticmethod
    def whole(step: Json, body: Json, number: int) -> Json:
        output: list[Json] = []
        if "text" in step:
            text = {"type": "output_text", "text": step["text"], "annotations": []}
            output.append({"type": "message", "id": f"msg_{number}", "role": "assistant", "content": [text]})
        for index, each in enumerate(step.get("calls", ())):
            output.append({"id": f"fc_{number}_{index}", "call_id": f"call_{number}_{index}", **_item_of_call(each)})
        return {
            "id": f"resp_{number}",
            "object": "response",
            "status": "completed",
            "model": body["model"],
            "output": [{**item, "status": "completed"} for item in output],
            "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
        }

    @classmethod
    def events(cls, step: Json, body: Json, number: int) -> Events:
        whole = cls.whole(step, body, number)
        begun = {**whole, "status": "in_progress", "output": []}
        events: list[Json] = [{"type": "response.created", "response": begun}]
        for index, item in enumerate(whole["output"]):
            events += [
                {"type": "response.output_item.added", "output_index": index, "item": item},
                {"type": "response.output_item.done", "output_index": index, "item": item},
            ]
        events.append({"type": "response.completed", "response": whole})
        return [(event["type"], {**event, "sequence_number": place}) for place, event in enumerate(events)]


def _item_of_call(call: Json) -> Json:
    tool, arguments = call["tool"], call["arguments"]
    if isinstance(arguments, str):
        return {"type": "custom_tool_call", "name": tool, "input": arguments}
    if tool == "tool_search":
        return {"type": "tool_search_call", "execution": "client", "arguments": arguments}
    # A tool that was found by a search is called in its namespace.
    namespace, _, name = tool.rpartition(".")
    found = {"namespace": namespace} if namespace else {}
    return {"type": "function_call", "name": name, **found, "arguments": json.dumps(arguments)}


def _turns_of_item(item: Json) -> Iterator[Turn]:
    kind = item.get("type", "message")
    if kind.endswith("_call") or item.get("role") == "assistant":
        yield Turn("model")
    elif kind.endswith("_output"):
        yield Turn("result", "\n".join(texts(item.get("output"))))
    elif item.get("role") in ("user", "developer"):
        yield from (Turn("user", text) for text in texts(item["content"]))


class Chat:
    @staticmethod
    def turns(body: Json) -> Iterator[Turn]:
        for message in body["messages"]:
            if message["role"] == "assistant":
                yield Turn("model")
            elif message["role"] == "tool":
                yield Turn("result", "\n".join(texts(message["content"])))
            elif message["role"] == "user":
                yield from (Turn("user", text) for text in texts(message["content"]))

    @staticmethod
    def whole(step: Json, body: Json, number: int) -> Json:
        calls = [
            {
                "index": index,
                "id": f"call_{number}_{index}",
                "type": "function",
                "function": {"name": each["tool"], "arguments": json.dumps(each["arguments"])},
            }
            for index, each in enumerate(step.get("calls", ()))
        ]
        message = {"role": "assistant", "content": step.get("text"), **({"tool_calls": calls} if calls else {})}
        return {
            "id": f"chatcmpl-{number}",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls" if calls else "stop"}],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
        }

    @classmethod
    def events(cls, step: Json, body: Json, number: int) -> Events:
        whole = cls.whole(step, body, number)
        (choice,) = whole["choices"]
        usage = whole.pop("usage")
        chunk = {**whole, "object": "chat.completion.chunk"}
        return [
            ("", {**chunk, "choices": [{"index": 0, "delta": choice["message"], "finish_reason": None}]}),
            ("", {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}),
            ("", {**chunk, "choices": [], "usage": usage}),
            ("", "[DONE]"),
        ]
