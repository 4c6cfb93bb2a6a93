"""Restores secrets in the arguments of calls that work on local files."""

from collections.abc import Mapping
from typing import cast

from ebbtide.agent.context.secret_tokens import SecretTokens, UnknownToken, has_tokens
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.base import Effect, Tool, ToolError

_PUT_BACK: tuple[Effect, ...] = ("read", "write")
"""Effects of tools that receive secrets: these stay in local files that the user approved."""
_FOR_MODELS = ("memory",)
"""Tools that write text for later models: they receive no secrets."""
_AS_IT_IS: tuple[Effect, ...] = ("none",)
"""Effects of tools that work on the model's own text."""


def with_secrets(call: ToolCall, tool: Tool, secrets: SecretTokens) -> Mapping[str, object]:
    """The arguments as the tool receives them. Raises `ToolError` if it would receive a token instead of its secret."""
    if tool.effect in _AS_IT_IS or not has_tokens(call.arguments):
        return call.arguments
    if tool.name in _FOR_MODELS:
        raise ToolError("`⟦secret:…⟧` stands for a secret, and none is remembered: say where it is found instead")
    if tool.effect not in _PUT_BACK:
        raise ToolError(
            f"`⟦secret:…⟧` stands for a value that is not shown, and `{tool.name}` is not given it: let a command read "
            "it from the file or variable that holds it, and change files with `edit` or `write`"
        )
    try:
        return cast(Mapping[str, object], secrets.reveal(call.arguments))
    except UnknownToken as error:
        raise ToolError(f"`{error}` stands for nothing that is known any more: look at where it was again") from error
