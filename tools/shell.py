"""How a command line is run: by which shell, with which environment. Pure but for looking up the shell once."""

import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

_SHELLS = (
    "/bin/bash",
    "/usr/bin/bash",
    "/usr/local/bin/bash",
    "/opt/homebrew/bin/bash",
    "/run/current-system/sw/bin/bash",
)

_SECRET = re.compile(
    r"(?:^|_)(?:API_?KEY|ACCESS_KEY|PRIVATE_KEY|SECRET_KEY|AUTH_KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?)$"
    r"|^(?:OPENAI|ANTHROPIC)_.*KEY",
    re.IGNORECASE,
)

_QUIET = {
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_EDITOR": "true",
    "GIT_PAGER": "cat",
    "PAGER": "cat",
    "SSH_ASKPASS_REQUIRE": "never",
    "TERM": "dumb",
    "NO_COLOR": "1",
}
"""No program waits for a person, and none paints."""


@cache
def shell() -> str:
    """The shell that runs commands, from a place that only an administrator changes."""
    return next((path for path in _SHELLS if Path(path).is_file()), "/bin/sh")


def argv_of(command: str) -> tuple[str, ...]:
    return (shell(), "-c", command)


def child_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The user's environment without what looks like a secret, and with everything told to be quiet."""
    return {name: value for name, value in environment.items() if not _SECRET.search(name)} | _QUIET
