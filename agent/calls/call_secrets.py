"""Secrets and tool calls: tools receive secrets in place of the tokens that the model sees. Passwords in git's settings
are hidden from models, just as those in the environment are."""

import asyncio
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import cast
from weakref import WeakKeyDictionary

from ebbtide.agent.messages import ToolCall
from ebbtide.agent.prompt.secret_tokens import SecretTokens, UnknownTokenError, has_tokens
from ebbtide.tools import sandbox
from ebbtide.tools import secrets as tools_secrets
from ebbtide.tools.base import Effect, Tool, ToolError
from ebbtide.tools.tool_traits import role_of

_EFFECTS_WITH_SECRETS: tuple[Effect, ...] = ("read", "write")
"""Effects of tools that receive the secrets instead of the tokens. The secrets then stay in local files that the user
approved."""
_EFFECTS_WITH_TOKENS: tuple[Effect, ...] = ("none",)
"""Effects of tools that receive the tokens unchanged, because they work on the model's own text."""
_MAX_SETTINGS_BYTES = 1 << 20
_SECRET_HINTS = (b"://", b"uthorization", b"oken", b"assword", b"ecret", b"_", b"-", b"AKIA", b"AIza", b"eyJ")
"""Every secret in git's settings contains or follows at least one of these strings. Most files contain none of them and
are not parsed."""
_FileStates = tuple[tuple[int, int], ...]
_last_checks: WeakKeyDictionary[SecretTokens, tuple[Sequence[Path], _FileStates]] = WeakKeyDictionary()
"""For each session's secrets, the files examined last and their states at that time. Before each call, only the states
are compared."""


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
    except UnknownTokenError as error:
        raise ToolError(f"`{error}` does not match a known secret: read its source again") from error


async def add_git_passwords(secrets: SecretTokens, folder: Path) -> None:
    """Add passwords in git's settings, such as those in remote URLs, to `secrets`."""
    paths, states = _last_checks.get(secrets, ((), ()))
    if paths and _file_states(paths) == states:
        return
    paths, states, passwords = await asyncio.to_thread(_read_settings, folder)
    secrets.learn_new(passwords)
    _last_checks[secrets] = paths, states


def _read_settings(folder: Path) -> tuple[Sequence[Path], _FileStates, Mapping[str, str]]:
    paths = [
        *(ancestor / ".git" for ancestor in (folder, *folder.parents)),
        *sandbox.git_metadata.settings_file_paths(folder),
    ]
    states = _file_states(paths)  # taken before reading, so that a change during the reading is noticed
    passwords = dict[str, str]()
    for path, (modified_ns, size) in zip(paths, states, strict=True):
        try:
            if modified_ns and path.is_file():
                passwords |= _read_passwords(path, modified_ns, size)
        except OSError:  # deleted or unreadable, so that no tool can show its content either
            continue
    return paths, states, passwords


def _file_states(paths: Sequence[Path]) -> _FileStates:
    """Return the modification time and size of each file; zeros if it is missing."""
    return tuple(map(_file_state, paths))


def _file_state(path: Path) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=256)
def _read_passwords(path: Path, _: int, size: int) -> Mapping[str, str]:
    """Return the passwords in a file, by name; cached until the file changes."""
    content = path.read_bytes() if size <= _MAX_SETTINGS_BYTES else b""
    if not any(hint in content for hint in _SECRET_HINTS):
        return {}
    return tools_secrets.git_passwords.find_git_passwords(content.decode("utf-8", "surrogateescape"))
