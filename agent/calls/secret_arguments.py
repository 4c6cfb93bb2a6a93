"""Secrets in calls: put back where a tool works on files of this machine, and hidden in what people are shown."""

from collections.abc import Mapping
from typing import cast

from agent.context.secret_tokens import SecretTokens, UnknownToken, has_tokens
from agent.messages import Ranges, ToolCall
from tools.base import Effect, Tool, ToolError

_PUT_BACK: tuple[Effect, ...] = ("read", "write")
"""What tools do that are given secrets: these stay on this machine, in files that the user was asked about."""
_AS_IT_IS: tuple[Effect, ...] = ("none",)
"""What tools do that work on what the model says itself."""


def with_secrets(call: ToolCall, tool: Tool, secrets: SecretTokens) -> Mapping[str, object]:
    """The arguments as the tool is given them. Raises `ToolError` where it would get a token in the place of what that
    stands for."""
    if tool.effect in _AS_IT_IS or not has_tokens(call.arguments):
        return call.arguments
    if tool.effect not in _PUT_BACK:
        raise ToolError(
            f"`⟦secret:…⟧` stands for a value that is not shown, and `{tool.name}` is not given it: let a command read "
            "it from the file or variable that holds it, and change files with `edit` or `write`"
        )
    try:
        return cast(Mapping[str, object], secrets.reveal(call.arguments))
    except UnknownToken as error:
        raise ToolError(f"`{error}` stands for nothing that is known any more: look at where it was again") from error


def hidden(text: str, ranges: Ranges, secrets: SecretTokens) -> tuple[str, Ranges]:
    """A text without its secrets, and ranges of it where they are now."""
    if secrets.hide(text) is text:
        return text, ranges
    shown, moved, at = "", [], 0
    for start, end in ranges:
        shown += secrets.hide(text[at:start])
        begin = len(shown)
        shown += secrets.hide(text[start:end])
        moved.append((begin, len(shown)))
        at = end
    return shown + secrets.hide(text[at:]), tuple(moved)
