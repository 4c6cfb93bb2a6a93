"""`CLAUDE_ENV_FILE`: a shell file in which `SessionStart` hooks set variables for the session's commands."""

import asyncio
import re
import secrets
from collections.abc import Mapping

from ebbtide.tools.base import Workspace
from ebbtide.tools.files.private_folder import make_private
from ebbtide.tools.process.child import answer_of
from ebbtide.tools.process.shell import Launch, child_environment, shell
from ebbtide.tools.sandbox.sandbox import Sandbox

_SHELL_TIMEOUT_S = 10.0
_MAX_ENVIRONMENT_BYTES = 1_000_000
"""Maximum size of an environment."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_SHELL_VARIABLES = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "CLAUDE_ENV_FILE"})
_READS = 'env -0; printf "\\0"; set -a; . "$1" >/dev/null 2>&1 </dev/null; env -0'


class EnvFile:
    """The environment file of one hook. Variables set by a project's hook apply in the sandbox only, if there is one:
    outside it they could choose which programs run."""

    def __init__(self, workspace: Workspace, sandbox: Sandbox | None, told: Mapping[str, str]) -> None:
        """`sandbox` is the sandbox in which the hook runs, or None. `told` are variables that the file's lines may
        use."""
        self._told = told
        inside = sandbox.scratch_inside if sandbox is not None else None
        self._sandbox = sandbox if inside is not None else None
        folder = workspace.outputs if sandbox is None or inside is None else sandbox.scratch
        name = f"hook-env-{secrets.token_hex(4)}.sh"
        self._path = folder / name
        self._seen = self._path if inside is None else inside / name
        self._root = workspace.root
        self._variables = workspace.variables if self._sandbox is None else self._sandbox.variables

    @property
    def variable(self) -> Mapping[str, str]:
        """The environment variable that gives the hook the path of the file."""
        make_private(self._path.parent)
        self._path.touch(mode=0o600)
        return {"CLAUDE_ENV_FILE": str(self._seen)}

    async def take(self) -> None:
        """Apply the variables in the file to later commands, and delete the file."""
        try:
            if self._path.is_symlink() or not self._path.is_file() or not self._path.stat().st_size:
                return
            environment = child_environment() | self._variables | dict(self._told)
            launch = Launch((shell(), "-c", _READS, "sh", str(self._seen)), environment)
            if self._sandbox is not None:
                launch = await asyncio.to_thread(self._sandbox.around, launch, self._root)
            answer = await answer_of(launch, b"", self._root, _SHELL_TIMEOUT_S, _MAX_ENVIRONMENT_BYTES)
            self._variables.update(changes_in(answer.out))
        except (OSError, ValueError):
            return  # commands then run with an unchanged environment
        finally:
            self._path.unlink(missing_ok=True)


def changes_in(printed: bytes) -> Mapping[str, str]:
    """Return the variables that are new or changed in the second of two consecutive environment dumps."""
    before, found, after = printed.partition(b"\0\0")
    if not found:
        return {}
    old, new = _environment(before), _environment(after)
    return {
        name: value
        for name, value in new.items()
        if old.get(name) != value and _NAME.fullmatch(name) and name not in _SHELL_VARIABLES
    }


def _environment(printed: bytes) -> Mapping[str, str]:
    lines = (each.decode("utf-8", "surrogateescape").partition("=") for each in printed.split(b"\0"))
    return {name: value for name, sign, value in lines if sign}
