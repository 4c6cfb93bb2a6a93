"""`CLAUDE_ENV_FILE`: a shell file in which `SessionStart` hooks set variables for the session's commands."""

import asyncio
import re
import secrets
from collections.abc import Mapping

from ebbtide.tools.base import Workspace
from ebbtide.tools.files.private_folder import create_private_folder
from ebbtide.tools.process.child import run_with_input
from ebbtide.tools.process.shell import Launch, child_environment, shell_path
from ebbtide.tools.sandbox.sandbox import Sandbox

_SHELL_TIMEOUT_S = 10.0
_MAX_ENVIRONMENT_BYTES = 1_000_000
"""Maximum size of an environment, in bytes."""
_NAME = re.compile(r"[A-Za-z_]\w*")
_SHELL_VARIABLES = frozenset({"_", "SHLVL", "PWD", "OLDPWD", "CLAUDE_ENV_FILE"})
_DUMP_SCRIPT = 'env -0; printf "\\0"; set -a; . "$1" >/dev/null 2>&1 </dev/null; env -0'


class EnvFile:
    """The environment file of one hook. If there is a sandbox, variables set by a project's hook apply only to
    sandboxed commands; outside the sandbox, they could determine which programs run."""

    def __init__(self, workspace: Workspace, sandbox: Sandbox | None, variables: Mapping[str, str]) -> None:
        """`sandbox`: the sandbox in which the hook runs, or None. `variables`: the hook's own variables, which the
        lines of the file may use."""
        self._hook_variables = variables
        visible_folder = sandbox.visible_temp_folder if sandbox is not None else None
        self._sandbox = sandbox if visible_folder is not None else None
        folder = workspace.outputs_folder if sandbox is None or visible_folder is None else sandbox.temp_folder
        name = f"hook-env-{secrets.token_hex(4)}.sh"
        self._path = folder / name
        self._path_for_hook = self._path if visible_folder is None else visible_folder / name
        self._root = workspace.root
        self._session_variables = workspace.environment_variables if self._sandbox is None else self._sandbox.variables

    @property
    def create_file(self) -> Mapping[str, str]:
        """Create the file, and return the environment variable that tells the hook its path."""
        create_private_folder(self._path.parent)
        self._path.touch(mode=0o600)
        return {"CLAUDE_ENV_FILE": str(self._path_for_hook)}

    async def apply_and_delete(self) -> None:
        """Apply the variables in the file to later commands, and delete the file."""
        try:
            if self._path.is_symlink() or not self._path.is_file() or not self._path.stat().st_size:
                return
            environment = child_environment() | self._session_variables | dict(self._hook_variables)
            launch = Launch((shell_path(), "-c", _DUMP_SCRIPT, "sh", str(self._path_for_hook)), environment)
            if self._sandbox is not None:
                launch = await asyncio.to_thread(self._sandbox.wrap, launch, self._root)
            result = await run_with_input(launch, b"", self._root, _SHELL_TIMEOUT_S, _MAX_ENVIRONMENT_BYTES)
            self._session_variables.update(changed_variables(result.output))
        except (OSError, ValueError):
            return  # Later commands run with an unchanged environment.
        finally:
            self._path.unlink(missing_ok=True)


def changed_variables(dumps: bytes) -> Mapping[str, str]:
    """Compare two environment dumps, which are separated by an empty entry. Return the variables that are new or
    changed in the second one."""
    old_dump, separator, new_dump = dumps.partition(b"\0\0")
    if not separator:
        return {}
    old, new = _parse_environment(old_dump), _parse_environment(new_dump)
    return {
        name: value
        for name, value in new.items()
        if old.get(name) != value and _NAME.fullmatch(name) and name not in _SHELL_VARIABLES
    }


def _parse_environment(dump: bytes) -> Mapping[str, str]:
    entries = (entry.decode("utf-8", "surrogateescape").partition("=") for entry in dump.split(b"\0"))
    return {name: value for name, equals, value in entries if equals}
