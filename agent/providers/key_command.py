"""API keys that are printed by a command, such as a password manager's."""

import asyncio
import os.path
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from weakref import WeakKeyDictionary

from ebbtide.agent.errors import AuthFailed, UsageError
from ebbtide.agent.providers.keys import MAX_KEY_CHARS, validate_key, without_stored_keys
from ebbtide.tools import process
from ebbtide.tools.outputs.plain_text import terminal_text
from ebbtide.tools.secrets.redaction import redact_options, redact_text, register_secret

KEY_COMMAND_TIMEOUT_S = 30.0
KEY_LIFETIME_S = 300.0
"""Seconds after which the command is run again, as in Claude Code."""
_MAX_QUOTED_CHARS = 200
"""Maximum length of the command, and of the line that it printed, when quoted in an error message."""


class KeyCommand:
    """The key that a command prints. It is kept for five minutes, in memory only."""

    renewal_statuses = frozenset({401, 403})

    def __init__(
        self,
        provider: str,
        command: str | tuple[str, ...],
        environment: Mapping[str, str],
        folder: Path,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        """`command`: a shell command line, or a program with its arguments. It runs in `folder`, with this
        environment."""
        self._provider, self._command = provider, command
        self._environment, self._folder, self._now = environment, folder, now
        self._lock = asyncio.Lock()
        self._key = ""
        """The key that was printed last; empty before the first run."""
        self._printed_at = 0.0

    async def get_key(self) -> str:
        """Return the key. The command is run again after five minutes. Raises `AuthFailed` if it prints no key."""
        async with self._lock:
            if not self._key or self._now() - self._printed_at >= KEY_LIFETIME_S:
                await self._run()
            return self._key

    async def renew_key(self, rejected_key: str) -> str:
        """Return a new key after the server has rejected one. The command is run again, unless it has printed another
        key in the meantime. Raises `AuthFailed` if it prints no key."""
        async with self._lock:
            if self._key == rejected_key:
                await self._run()
            return self._key

    async def _run(self) -> None:
        try:
            result = await process.child.run_with_input(
                process.shell.Launch(self._argv(), self._environment),
                b"",
                self._folder,
                KEY_COMMAND_TIMEOUT_S,
                2 * MAX_KEY_CHARS,
            )
        except (OSError, ValueError) as error:  # a command with a NUL byte raises ValueError
            raise self._create_error(f"cannot be started: {error}") from error
        printed_text = result.output.decode("utf-8", "replace")
        if result.code is None:
            raise self._create_error(f"did not finish within {KEY_COMMAND_TIMEOUT_S:.0f} s")
        if result.code != 0:
            failed = "failed with exit code" if result.code > 0 else "was ended by signal"
            error_text = terminal_text(result.error_output.decode("utf-8", "replace")).strip()
            reason = self._redact(error_text.partition("\n")[0], printed_text)
            raise self._create_error(f"{failed} {abs(result.code)}{': ' if reason else ''}{reason}")
        if not printed_text.strip():
            raise self._create_error("printed nothing")
        try:
            key = validate_key(printed_text)
        except UsageError:  # its text does not say what printed the key
            raise self._create_error("did not print a valid key: expected one line without spaces") from None
        register_secret(key)
        self._key, self._printed_at = key, self._now()

    def _argv(self) -> tuple[str, ...]:
        if isinstance(self._command, str):
            return process.shell.shell_argv(self._command)
        return (os.path.expanduser(self._command[0]), *self._command[1:])

    def _create_error(self, problem: str) -> AuthFailed:
        words = self._command.split() if isinstance(self._command, str) else self._command
        command = self._redact(" ".join(redact_options(words)))
        return AuthFailed(
            f"no key for {self._provider}: `{command}` {problem.rstrip('.')}.",
            todo=f"Run this command in a shell to check it, or change `providers.{self._provider}.key_command`.",
        )

    def _redact(self, text: str, printed_text: str = "") -> str:
        """Shorten text and remove its secrets. `printed_text`: what the command printed, which may be a key."""
        clean = redact_text(text, {**self._environment, "PRINTED_KEY": printed_text.strip()})
        return clean if len(clean) <= _MAX_QUOTED_CHARS else f"{clean[:_MAX_QUOTED_CHARS]}…"


_commands: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[object, KeyCommand]] = WeakKeyDictionary()


def shared_key_command(
    provider: str, command: str | tuple[str, ...], environment: Mapping[str, str], home: Path | None
) -> KeyCommand:
    """Return the provider's key command, which all sessions of the process share. It runs in the home folder, so that a
    relative path cannot lead to one of the project's programs."""
    own_environment = without_stored_keys(environment)
    identity = (provider, command, home, frozenset(own_environment.items()))
    commands = _commands.setdefault(asyncio.get_running_loop(), {})
    if identity not in commands:
        folder = home if home is not None and home.is_dir() else Path("/")
        commands[identity] = KeyCommand(provider, command, own_environment, folder)
    return commands[identity]
