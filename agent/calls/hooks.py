"""The user's output hooks: programs that see outputs before they are stored or cut, and what follows from their
replies."""

import asyncio
import json
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ebbtide.agent.calls.execute import Guard, no_checkpoint
from ebbtide.agent.calls.hook_changes import hook_change_lines
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import Rule, concerns, parse_rule
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.config.option_values import AfterTool
from ebbtide.agent.context.mask import HOOK_NOTE_PREFIX
from ebbtide.agent.events.session import Event, Noticed
from ebbtide.agent.messages import OutputStatus, ToolCall
from ebbtide.tools.base import PrintedLog, Result, Workspace
from ebbtide.tools.files.private_folder import make_private
from ebbtide.tools.outputs.extent import truncate
from ebbtide.tools.outputs.plain_text import plain
from ebbtide.tools.process.child import Exit, answer_of
from ebbtide.tools.process.shell import Launch, argv_of, child_environment
from ebbtide.tools.sandbox.diff_program import own_diff_variables

MAX_HOOK_REPLY_CHARS = 10_000
"""Longest reply of a hook that is shown to the model, in characters."""

MAX_HOOK_REPLY_BYTES = 4 * MAX_HOOK_REPLY_CHARS

FEEDBACK_EXIT_CODE = 2
"""The exit code for feedback."""

_PROBLEM = 200

CHANGING = frozenset({"write", "run", "serve"})
"""Effects of calls after which a hook may change files as well."""

RETRIEVERS = frozenset({"read_result", "tool_output_cache", "tool_output_cache_grep", "recall"})
"""Tools that return outputs which hooks have already seen."""


@dataclass(frozen=True, slots=True)
class HookResult:
    for_model: str = ""
    """Text for the model, shown with the output."""
    for_user: str = ""
    """One line for the user."""


def interpret_exit(match: str, answer: Exit, seconds: float) -> HookResult:
    """Interpret a hook's exit. The output is never changed."""
    if answer.code is None:
        return HookResult(for_user=_without(match, f"was ended after {seconds:g} s"))
    if answer.code == 0:
        said = _reply_text(answer.out)
        return HookResult(f"{HOOK_NOTE_PREFIX}`{match}` notes:]\n{said}") if said else HookResult()
    said = _reply_text(answer.err)
    if answer.code == FEEDBACK_EXIT_CODE and said:
        return HookResult(f"{HOOK_NOTE_PREFIX}`{match}` objects; take it into account:]\n{said}")
    how = f"exited with {answer.code}" if answer.code > 0 else f"was killed by signal {-answer.code}"
    first = said.split("\n", 1)[0][:_PROBLEM]
    return HookResult(for_user=_without(match, f"{how}: {first}" if first else how))


def hook_failed(match: str, problem: str) -> HookResult:
    """The result for a hook that could not run."""
    return HookResult(for_user=_without(match, f"could not be run: {problem}"))


def _without(match: str, what: str) -> str:
    return f"the hook for `{match}` {what}; the output is shown without it"


def _reply_text(data: bytes) -> str:
    return truncate(plain(data.decode("utf-8", "replace")).strip(), MAX_HOOK_REPLY_CHARS)


_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class OutputHook:
    match: Rule
    argv: tuple[str, ...]
    seconds: float


class OutputHooks:
    """The output hooks of one session."""

    def __init__(
        self,
        configured: Sequence[AfterTool],
        session: str,
        workspace: Workspace,
        interrupt: Interrupt,
        emit: Callable[[Event], None],
        guard: Guard = no_checkpoint,
    ) -> None:
        """`guard`: saves files that the hooks may change, as formatters do. Raises `ConfigError` if a `match` is not
        a valid rule."""
        self._hooks = tuple(map(_hook_of, configured))
        self._session = session
        self._workspace = workspace
        self._interrupt = interrupt
        self._emit = emit
        self._guard = guard

    async def feedback_on(self, call: ToolCall, asked: PermissionRequest, status: OutputStatus, raw: Result) -> str:
        """Run the matching hooks one after the other, and return their feedback for the model. An interrupt ends
        them."""
        root = str(self._workspace.root)
        wanted = [hook for hook in self._hooks if concerns(hook.match, asked, root)]
        if not wanted or call.name in RETRIEVERS:
            return ""
        try:
            with as_file(raw, self._workspace.outputs) as path:
                told = await asyncio.to_thread(written_to_disk, raw, path)
                reads_only = asked.effect not in CHANGING or asked.read_only is not None
                async with self._guard("run", (), reads_only=reads_only, show=lambda _: None):
                    heard = [await self._ask(hook, self._hook_input(call, status, path, told)) for hook in wanted]
        except OSError as error:
            heard = [hook_failed(str(wanted[0].match), f"the output could not be written to a file: {error}")]
        for each in heard:
            if each.for_user:
                self._emit(Noticed(each.for_user))
        changed = hook_change_lines(call, raw.file_changes, self._workspace)
        return "\n".join(filter(None, (changed, *(each.for_model for each in heard))))

    def _hook_input(self, call: ToolCall, status: OutputStatus, path: Path, size: int) -> bytes:
        """What a hook reads on its standard input."""
        told = {
            "session": self._session,
            "tool": call.name,
            "arguments": dict(call.arguments),
            "status": status,
            "cwd": str(self._workspace.root),
            "output_path": str(path),
            "bytes": size,
        }
        return json.dumps(told).encode()

    async def _ask(self, hook: OutputHook, told: bytes) -> HookResult:
        match, root = str(hook.match), self._workspace.root
        environment = child_environment() | own_diff_variables((root,))
        try:
            answer = await self._interrupt.race(
                answer_of(Launch(hook.argv, environment), told, root, hook.seconds, MAX_HOOK_REPLY_BYTES)
            )
        except (OSError, ValueError) as error:  # a NUL byte in the command raises ValueError
            return hook_failed(match, str(error))
        return HookResult() if answer is None else interpret_exit(match, answer, hook.seconds)


def _hook_of(configured: AfterTool) -> OutputHook:
    command = configured.command
    argv = argv_of(command) if isinstance(command, str) else (os.path.expanduser(command[0]), *command[1:])
    return OutputHook(parse_rule(configured.match), argv, configured.timeout)


@contextmanager
def as_file(raw: Result, folder: Path) -> Iterator[Path]:
    """A file for the raw bytes, readable only by the user, and deleted afterwards."""
    for each in (folder.parent, folder):  # parents get no mode from `mkdir`
        make_private(each)
    path = (raw.log.path.parent if raw.log else folder) / f"hook-{secrets.token_hex(8)}"
    try:
        yield path
    finally:
        with suppress(OSError):
            path.unlink(missing_ok=True)


def written_to_disk(raw: Result, path: Path) -> int:
    """Write the output to a file and return its size in bytes. A program's log is hard-linked if it contains nothing
    else, and copied otherwise; it is never loaded whole."""
    if raw.log is not None:
        if not _is_named(raw.log, path):
            _copy(raw.log, path)
        return raw.log.end - raw.log.start
    data = (raw.text if raw.uncut is None else raw.uncut).encode("utf-8", "surrogatepass")
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(data)
    return len(data)


def _is_named(log: PrintedLog, path: Path) -> bool:
    """Hard-link the log at the path, if possible. The link must not be written to."""
    if not log.is_finished or log.start != 0 or log.path.stat().st_size != log.end:
        return False
    try:
        os.link(log.path, path)
    except OSError:  # the file system has no hard links
        return False
    path.chmod(0o400)
    return True


def _copy(log: PrintedLog, path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as copied, log.path.open("rb") as file:
        file.seek(log.start)
        left = log.end - log.start
        while left > 0 and (chunk := file.read(min(_CHUNK, left))):
            copied.write(chunk)
            left -= len(chunk)
