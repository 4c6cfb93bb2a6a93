"""Replaces placeholder tokens by their secrets in the arguments of calls that work on local files."""

from collections.abc import Mapping
from typing import cast

from ebbtide.agent.messages import ToolCall
from ebbtide.agent.prompt.secret_tokens import SecretTokens, UnknownToken, has_tokens
from ebbtide.tools.base import Effect, Tool, ToolError
from ebbtide.tools.tool_traits import role_of

_EFFECTS_WITH_SECRETS: tuple[Effect, ...] = ("read", "write")
"""Effects of tools that receive the secrets in place of the tokens. The secrets then stay in local files that the user
approved."""
_EFFECTS_WITH_TOKENS: tuple[Effect, ...] = ("none",)
"""Effects of tools that receive the tokens unchanged, because they work on the model's own text."""


def arguments_with_secrets(call: ToolCall, tool: Tool, secrets: SecretTokens) -> Mapping[str, object]:
    """Return the arguments as the tool receives them. Raises `ToolError` if the tool would receive a placeholder token
    instead of its secret."""
    if tool.effect in _EFFECTS_WITH_TOKENS or not has_tokens(call.arguments):
        return call.arguments
    if role_of(tool.name) == "remember":  # a remembered text is shown to models in later sessions
        raise ToolError("`⟦secret:…⟧` stands for a secret, which cannot be remembered: say where to find it instead")
    if tool.effect not in _EFFECTS_WITH_SECRETS:
        raise ToolError(
            f"`⟦secret:…⟧` stands for a value that is not shown, and `{tool.name}` is not given it: let a command read "
            "it from the file or variable that holds it, and change files with `edit` or `write`"
        )
    try:
        return cast(Mapping[str, object], secrets.reveal(call.arguments))
    except UnknownToken as error:
        raise ToolError(f"`{error}` does not match a known secret: read its source again") from error
