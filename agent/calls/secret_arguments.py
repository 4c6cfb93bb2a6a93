"""Secrets in calls: put back where a tool works on files of this machine."""

from collections.abc import Mapping
from typing import cast

from ebbtide.agent.context.secret_tokens import SecretTokens, UnknownToken, has_tokens
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.base import Effect, Tool, ToolError

_PUT_BACK: tuple[Effect, ...] = ("read", "write")
"""What tools do that are given secrets: these stay on this machine, in files that the user was asked about."""
_FOR_MODELS = ("memory",)
"""Tools that write what later models are shown: they are given none."""
_AS_IT_IS: tuple[Effect, ...] = ("none",)
"""What tools do that work on what the model says itself."""


def with_secrets(call: ToolCall, tool: Tool, secrets: SecretTokens) -> Mapping[str, object]:
    """The arguments as the tool is given them. Raises `ToolError` where it would get a token in the place of what that
    stands for."""
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
