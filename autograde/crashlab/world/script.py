"""A chat model whose replies were written down beforehand, so that a run needs no key and no net.

A script is a JSON object with `task` (what the model is asked), `target` (the machine to build for)
and `replies`, each with the `content` and the `tool_calls` of one AI message.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.language_models.fake_chat_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult


@dataclass(frozen=True)
class Script:
    """A recorded run: what was asked, for which target, and each reply of the model."""

    task: str
    target: str
    replies: list[AIMessage]


def read_script(path: Path) -> Script:
    """Read a script such as data/agents/run-217.json."""
    script = json.loads(path.read_text(encoding="utf-8"))
    replies = [AIMessage(**reply) for reply in script["replies"]]
    return Script(script["task"], script["target"], replies)


class ScriptedModel(FakeMessagesListChatModel):
    """Gives to n AI messages of a conversation the reply n + 1.

    As with a real model, all it knows of the past is in the messages. A resumed process therefore
    goes on where its messages end, and one that lost them begins again. Raises IndexError after
    the last reply.
    """

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        given = sum(isinstance(each, AIMessage) for each in messages)
        if given >= len(self.responses):
            raise IndexError(f"the script ends after {len(self.responses)} replies")
        # a copy, because the caller writes an id into it
        reply = self.responses[given].model_copy()
        return ChatResult(generations=[ChatGeneration(message=reply)])

    def bind_tools(self, tools: Sequence[Any], **kwargs: Any) -> "ScriptedModel":
        """Return the model itself: its script knows the tools."""
        return self


def scripted_model(path: Path) -> ScriptedModel:
    """Return the model that speaks a script. A real chat model can stand in its place."""
    return ScriptedModel(responses=read_script(path).replies)
