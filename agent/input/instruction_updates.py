"""Instructions added after the system prompt was built: those of folders used for the first time, and changes to files.
They are sent as notes, so that each request remains a prefix of the next one."""

import hashlib
import os
import os.path
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ebbtide.agent.calls.execute import CallRunner
from ebbtide.agent.context.prompt import InstructionFile, Instructions
from ebbtide.agent.context.tool_selection import executed_call
from ebbtide.agent.events.session import Noticed
from ebbtide.agent.input.instruction_files import (
    InstructionReader,
    UnreadableFile,
    files_in,
    folders_to,
    has_rules,
    with_imports,
)
from ebbtide.agent.messages import Assistant, Conversation, Note, User
from ebbtide.agent.window.measure import budget_of
from ebbtide.agent.window.session_context import SessionContext
from ebbtide.tools.base import ToolError
from ebbtide.tools.commands.named_files import named_files
from ebbtide.tools.files.diff import unified_diff
from ebbtide.tools.files.paths import display, locate
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.plain_text import printable

if TYPE_CHECKING:  # a type only: few projects have such rules
    from ebbtide.agent.input.scoped_rules import ScopedRule

_BYTES_A_TOKEN = 3
_SHARE = 4
"""Notes take at most 1/`_SHARE` of the free room."""
_NOT_OURS = frozenset(("node_modules", "site-packages", ".venv", "venv", ".git"))
"""Folders with other people's files. The same applies to folders that git ignores, because no commit brought their
files."""

Signature: TypeAlias = tuple[int, int, int] | None
"""Identifies a version of a file; None if there is no file."""


@dataclass(frozen=True, slots=True)
class _KnownFile:
    """A file as the model knows it."""

    signature: Signature
    text: str


@dataclass(frozen=True, slots=True)
class _UsedPaths:
    """Paths used by calls and messages."""

    looked_at: tuple[Path, ...]
    written: tuple[Path, ...]


class FileInstructionUpdates:
    """Tracks the instructions that one session's model has seen. The state is rebuilt from the notes in the
    conversation, so it survives a resume."""

    def __init__(
        self, root: Path, project: Path, further: Callable[[], Sequence[str]], instructions: Instructions
    ) -> None:
        """`further`: additional working folders."""
        self._root, self._project, self._further = root, project, further
        self._begun = {file.path: file.text for file in instructions.files}
        self._known = {path: _KnownFile(_signature(path), text) for path, text in self._begun.items()}
        self._told = dict[str, str]()
        """Digest of the text last sent in a note, by file."""
        self._said = set(instructions.problems)
        """Notices already shown to the user."""
        self._looked = set[Path]()
        self._rules: dict[Path, tuple[ScopedRule, ...]] = {}
        self._chains = dict[Path, tuple[Path, ...]]()
        """The folders from the top down to a used folder."""
        self._reader = InstructionReader(seen=set(map(_real, self._begun)), texts=set(self._begun.values()))
        self._epoch: int | None = None

    def add_to(self, message: User, conversation: Conversation, env: SessionContext) -> User:
        """Add the instructions that are due: changed files, files whose notes a rewrite has removed, and files that
        belong to paths used for the first time. The user is notified of the latter."""
        if not message.parts:
            return message
        used = _used_by(message, conversation, env.call_runner)
        for path in used.written:
            self.refresh(str(path))
        if not message.outputs:
            self._looked.clear()  # between turns one may have been added
            self._rules.clear()
            self._chains.clear()
        lost = self._lost_notes(conversation, env.watch.epoch)
        notes = [*lost, *self._changed_notes(), *self._discovered_notes(used, is_said=not message.outputs, env=env)]
        if not notes:
            return message
        budget = budget_of(conversation.plus(message), env)
        room = max(budget.window.effective - budget.used, 0) * _BYTES_A_TOKEN // _SHARE
        return replace(message, parts=(*message.parts, *_fitting(notes, room)))

    def refresh(self, path: str) -> None:
        """Treat the current content of a file as known, because the model itself has changed it."""
        if path in self._known:
            self._known[path] = self._read_file(path)
        elif any(path == str(each) for each in files_in(Path(path).parent)):
            self._known[path] = self._read_file(path)
            self._reader.seen.add(_real(path))

    def _read_file(self, path: str) -> _KnownFile:
        signature = _signature(path)
        try:
            return _KnownFile(signature, InstructionReader().read(Path(path)))
        except UnreadableFile:
            return _KnownFile(signature, "")

    def _lost_notes(self, conversation: Conversation, epoch: int) -> list[Note]:
        """Return the notes that a rewrite has removed from the view. The first time, restore the state from the
        existing notes."""
        if epoch == self._epoch:
            return []
        is_first, self._epoch = self._epoch is None, epoch
        notes = {note.name: note for note in instruction_notes(conversation)}
        if is_first:
            self._go_on_from(notes.values())
            return []
        gone = [path for path in self._told if path not in notes and self._known[path].text != self._begun.get(path)]
        return [self._change(path, self._begun[path]) if path in self._begun else self._section(path) for path in gone]

    def _go_on_from(self, notes: Iterable[Note]) -> None:
        """Restore what the model was told before the session was closed, except what is now in the system prompt."""
        for note in notes:
            if note.name in self._begun:
                continue
            now = self._read_file(note.name)
            is_same = _digest(now.text) == note.about
            self._known[note.name] = now if is_same else _KnownFile(None if now.signature else (0, 0, 0), "")
            self._told[note.name] = note.about
            self._reader.seen.add(_real(note.name))
            self._reader.texts.add(now.text)

    def _changed_notes(self) -> Iterator[Note]:
        for path, before in list(self._known.items()):
            if _signature(path) == before.signature:
                continue
            self._known[path] = now = self._read_file(path)
            if now.text != before.text:
                yield self._change(path, before.text)

    def _change(self, path: str, before: str) -> Note:
        now, name = self._known[path], printable(path)
        self._told[path] = _digest(now.text)
        if now.signature is None:
            text = f"[`{name}` is gone: what it said does not hold any more.]"
        elif not now.text:
            text = f"[`{name}` says nothing any more that can be read.]"
        elif not before:
            return self._section(path)
        else:
            changed = "\n".join(unified_diff(name, f"{before}\n", f"{now.text}\n")[2:])
            whole = f"[`{name}` has changed. It says now:]\n\n{now.text}"
            part = f"[`{name}` has changed since you were told what it says:]\n\n{changed}"
            text = min(part, whole, key=len)
        return _note(path, text, now.text)

    def _section(self, path: str) -> Note:
        now = self._known[path]
        self._told[path] = _digest(now.text)
        return _note(path, f"# Instructions from {printable(path)}\n\n{now.text}", now.text)

    def _discovered_notes(self, used: _UsedPaths, *, is_said: bool, env: SessionContext) -> Iterator[Note]:
        """Yield notes on files that belong to the used paths and that the model has not seen."""
        begun = folders_to(self._root, self._project)
        for folder in begun if is_said else ():
            yield from self._of_folder(folder, self._project, env)
        tops = [self._root, *map(Path, self._further())]
        for path in used.looked_at:
            top = next((each for each in tops if path.is_relative_to(each)), None)
            if top is None:
                continue
            folders = self._folders(path, top)
            for folder in folders if top != self._root else folders[1:]:
                yield from self._of_folder(folder, top, env)
            for folder in (*begun, *folders[1:]) if top == self._root else folders:
                yield from self._matching(path, folder, top, env)
        for problem in self._reader.problems:
            if problem not in self._said:
                env.emit(Noticed(problem))
        self._said |= set(self._reader.problems)
        self._reader.problems.clear()

    def _of_folder(self, folder: Path, top: Path, env: SessionContext) -> Iterator[Note]:
        if folder in self._looked:
            return
        self._looked.add(folder)
        for path in files_in(folder):
            if str(path) not in self._known:
                for file in with_imports(path, f"# Instructions from {path}", (top, self._root), self._reader):
                    yield from self._new(file, env)

    def _matching(self, path: Path, folder: Path, top: Path, env: SessionContext) -> Iterator[Note]:
        """Yield the rules of a folder that apply to a file in it."""
        if folder not in self._rules:
            self._rules[folder] = self._rules_of(folder, top)
        for rule in self._rules[folder]:
            is_meant = rule.scope in ("always", "offered") or (rule.scope == "matching" and rule.covers(path))
            if is_meant and str(rule.path) not in self._known and self._reader.takes(rule.path, rule.text):
                yield from self._new(rule.section, env)

    def _rules_of(self, folder: Path, top: Path) -> "tuple[ScopedRule, ...]":
        if not has_rules(folder):
            return ()
        from ebbtide.agent.input.scoped_rules import rules_in  # noqa: PLC0415  # deferred: few projects have such rules

        boundary = self._project if top == self._root else top
        return rules_in(folder, boundary, self._reader)

    def _new(self, file: InstructionFile, env: SessionContext) -> Iterator[Note]:
        self._known[file.path] = _KnownFile(_signature(file.path), file.text)
        if file.text:
            self._told[file.path] = _digest(file.text)
            yield _note(file.path, file.section, file.text)
            env.emit(
                Noticed(
                    f"`{printable(display(Path(file.path), self._root))}` loaded: its instructions apply from now on"
                )
            )

    def _folders(self, path: Path, top: Path) -> tuple[Path, ...]:
        """Return the folders from `top` down to the used one, as far as they contain the project's own files."""
        folder = path if path.is_dir() else path.parent
        if folder not in self._chains:
            self._chains[folder] = tuple(_own_folders(folder, top))
        return self._chains[folder]


def _own_folders(folder: Path, top: Path) -> Iterator[Path]:
    from ebbtide.tools.search.walk import is_ignored, rules_in, scope_of  # noqa: PLC0415  # deferred: some runs use no files

    scope = scope_of(str(top))
    rules = rules_in(str(top), scope.above, scope.is_tracked)
    yield top
    below = top
    for part in folder.relative_to(top).parts:
        below = below / part
        if part in _NOT_OURS or is_ignored(str(below), True, rules):
            return
        yield below
        rules = rules_in(str(below), rules, scope.is_tracked)


def _used_by(message: User, conversation: Conversation, runner: CallRunner) -> _UsedPaths:
    """Return the files and folders of the calls that the message answers, and of its attachments."""
    looked_at, written = dict[Path, None](), dict[Path, None]()
    last = conversation.messages[-1] if conversation.messages else None
    calls = {call.id: call for call in last.calls} if isinstance(last, Assistant) else {}
    root = runner.workspace.root
    for output in message.outputs:
        if output.status not in ("done", "failed") or output.call_id not in calls:
            continue
        call = executed_call(calls[output.call_id], output)
        tool = runner.tools.get(call.name)
        if tool is None:
            continue
        subjects: tuple[str, ...] = ()
        with suppress(ToolError):  # its output explains the error
            subjects = tool.subjects(call.arguments, runner.workspace)
        if tool.effect in ("read", "write"):
            looked_at |= dict.fromkeys(map(Path, subjects))
            written |= dict.fromkeys(map(Path, subjects if tool.effect == "write" else ()))
        elif tool.effect == "run":
            for file in (file for line in subjects for file in named_files(line)):
                path = Path(os.path.normpath(root / os.path.expanduser(file.path)))
                (written if file.changes else looked_at)[path] = None
    attached = [part.name for part in message.parts if isinstance(part, Note) and part.kind in ("file", "folder")]
    for name in attached:
        with suppress(ToolError):
            looked_at[locate(name, runner.workspace)] = None
    together = (*looked_at, *(path for path in written if path not in looked_at))
    return _UsedPaths(tuple(path for path in together if os.path.lexists(path)), tuple(written))


def instruction_notes(conversation: Conversation) -> Iterator[Note]:
    """Yield the instruction notes in the view; a note's name is the path of its file."""
    for message in (conversation.summary.request, *conversation.messages):
        if isinstance(message, User):
            yield from (part for part in message.parts if isinstance(part, Note) and part.kind == "instructions")


def _note(path: str, text: str, said: str) -> Note:
    return Note(text, kind="instructions", name=path, about=_digest(said))


def _fitting(notes: Sequence[Note], room: int) -> Iterator[Note]:
    """Yield the notes as long as they fit, and only the names of the others."""
    for note in notes:
        size = len(note.text.encode("utf-8", "replace"))
        if size <= room:
            room -= size
            yield note
        else:
            yield replace(note, text=f"[`{printable(note.name)}` holds instructions: read it before you go on there.]")


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _signature(path: str) -> Signature:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _real(path: str) -> Path:
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):  # an invalid name
        return Path(path)
