"""Adds instructions that the system prompt lacks: those of folders used for the first time, and changes to instruction
files. They are sent as notes, so that each request remains a prefix of the next one."""

import hashlib
import os
import os.path
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from ebbtide.agent import input
from ebbtide.agent.calls.execute import CallRunner
from ebbtide.agent.events.session import Event, Noticed
from ebbtide.agent.input.instruction_files import (
    InstructionReader,
    UnreadableFileError,
    folders_down_to,
    has_rule_folder,
    instruction_files_in,
    read_with_imports,
)
from ebbtide.agent.messages import Assistant, Conversation, Note, User
from ebbtide.agent.prompt.build import InstructionFile, Instructions
from ebbtide.agent.tool_specs import executed_call
from ebbtide.agent.window.measure import measure_budget
from ebbtide.agent.window.session_context import WindowContext
from ebbtide.tools import commands, search
from ebbtide.tools.base import ToolError
from ebbtide.tools.files.diff import unified_diff
from ebbtide.tools.files.paths import display_path, locate_path
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.plain_text import printable_name

if TYPE_CHECKING:  # imported only for its type, because few projects have such rules
    from ebbtide.agent.input.scoped_rules import ScopedRule

_BYTES_PER_TOKEN = 3
_ROOM_DIVISOR = 4
"""Notes take at most 1/`_ROOM_DIVISOR` of the remaining room."""
_EXTERNAL_FOLDERS = frozenset(("node_modules", "site-packages", ".venv", "venv", ".git"))
"""Folders whose files do not belong to the project. Folders that git ignores are treated in the same way."""

FileSignature: TypeAlias = tuple[int, int, int] | None
"""Identifies a version of a file; None if there is no file."""


@dataclass(frozen=True, slots=True)
class _KnownFile:
    """A file in the version that the model knows."""

    signature: FileSignature
    text: str


@dataclass(frozen=True, slots=True)
class _UsedPaths:
    """Paths used by calls and messages. `used_paths` includes the changed paths."""

    used_paths: tuple[Path, ...]
    written_paths: tuple[Path, ...]


class InstructionTracker:
    """Tracks the instructions that the model of one session has seen. The state is rebuilt from the notes in the
    conversation when a session is resumed."""

    def __init__(
        self,
        root: Path,
        project: Path,
        added_folders: Callable[[], Sequence[str]],
        instructions: Instructions,
        emit: Callable[[Event], None],
    ) -> None:
        """`added_folders`: returns the additional working folders."""
        self._root = root
        self._project = project
        self._added_folders = added_folders
        self._emit = emit
        self._initial_texts = {file.path: file.text for file in instructions.files}
        self._known_files = {path: _KnownFile(_signature(path), text) for path, text in self._initial_texts.items()}
        self._announced_digests = dict[str, str]()
        """Digest of the text last sent in a note, by file."""
        self._reported_problems = set(instructions.problems)
        """Notices already shown to the user."""
        self._searched_folders = set[Path]()
        self._rules: dict[Path, tuple[ScopedRule, ...]] = {}
        self._folder_chains = dict[Path, tuple[Path, ...]]()
        """The folders from the top down to each used folder."""
        self._reader = InstructionReader(
            seen_paths=set(map(_real_path, self._initial_texts)), seen_texts=set(self._initial_texts.values())
        )
        self._rewrite_count: int | None = None

    def add_instructions(
        self, message: User, conversation: Conversation, runner: CallRunner, window: WindowContext
    ) -> User:
        """Add the instructions that the model lacks: changed files, files whose notes a rewrite has removed, and files
        that apply to paths used for the first time. The user is notified about files for new paths."""
        if not message.parts:
            return message
        touched_paths = _collect_used_paths(message, conversation, runner)
        for path in touched_paths.written_paths:
            self.mark_known(str(path))
        if not message.outputs:
            self._searched_folders.clear()  # search again, because files may have been added between turns
            self._rules.clear()
            self._folder_chains.clear()
        replacement_notes = self._replacement_notes(conversation, window.prefix_watch.rewrite_count)
        notes = [
            *replacement_notes,
            *self._change_notes(),
            *self._discovery_notes(touched_paths, is_first_message=not message.outputs),
        ]
        if not notes:
            return message
        budget = measure_budget(conversation.plus(message), window)
        remaining_bytes = max(budget.window.available_tokens - budget.used, 0) * _BYTES_PER_TOKEN // _ROOM_DIVISOR
        return replace(message, parts=(*message.parts, *_fit_notes(notes, remaining_bytes)))

    def mark_known(self, path: str) -> None:
        """Treat the current content of an instruction file as known to the model, for example because the model has
        changed it."""
        if path in self._known_files:
            self._known_files[path] = self._read_file(path)
        elif any(path == str(file) for file in instruction_files_in(Path(path).parent)):
            self._known_files[path] = self._read_file(path)
            self._reader.seen_paths.add(_real_path(path))

    def _read_file(self, path: str) -> _KnownFile:
        signature = _signature(path)
        try:
            return _KnownFile(signature, InstructionReader().read(Path(path)))
        except UnreadableFileError:
            return _KnownFile(signature, "")

    def _replacement_notes(self, conversation: Conversation, rewrite_count: int) -> list[Note]:
        """Build replacements for the notes that a rewrite has removed from the view. On the first call, restore the
        state from the existing notes instead."""
        if rewrite_count == self._rewrite_count:
            return []
        is_first, self._rewrite_count = self._rewrite_count is None, rewrite_count
        notes = {note.name: note for note in instruction_notes(conversation)}
        if is_first:
            self._restore_from_notes(notes.values())
            return []
        lost_paths = [
            path
            for path in self._announced_digests
            if path not in notes and self._known_files[path].text != self._initial_texts.get(path)
        ]
        return [
            self._change_note(path, self._initial_texts[path]) if path in self._initial_texts else self._full_note(path)
            for path in lost_paths
        ]

    def _restore_from_notes(self, notes: Iterable[Note]) -> None:
        """Restore the state from the notes that the model saw before the session was closed. Notes about files that the
        system prompt now contains are skipped."""
        for note in notes:
            if note.name in self._initial_texts:
                continue
            current = self._read_file(note.name)
            is_same = _digest(current.text) == note.about
            self._known_files[note.name] = (
                current if is_same else _KnownFile(None if current.signature else (0, 0, 0), "")
            )
            self._announced_digests[note.name] = note.about
            self._reader.seen_paths.add(_real_path(note.name))
            self._reader.seen_texts.add(current.text)

    def _change_notes(self) -> Iterator[Note]:
        for path, known_file in list(self._known_files.items()):
            if _signature(path) == known_file.signature:
                continue
            self._known_files[path] = current = self._read_file(path)
            if current.text != known_file.text:
                yield self._change_note(path, known_file.text)

    def _change_note(self, path: str, old_text: str) -> Note:
        current, name = self._known_files[path], printable_name(path)
        self._announced_digests[path] = _digest(current.text)
        if current.signature is None:
            text = f"[`{name}` has been deleted: its instructions no longer apply.]"
        elif not current.text:
            text = f"[`{name}` no longer contains readable text.]"
        elif not old_text:
            return self._full_note(path)
        else:
            diff = "\n".join(unified_diff(name, f"{old_text}\n", f"{current.text}\n")[2:])
            full_note = f"[`{name}` has changed. It now says:]\n\n{current.text}"
            diff_note = f"[`{name}` has changed since you last saw its content:]\n\n{diff}"
            text = min(diff_note, full_note, key=len)
        return _make_note(path, text, current.text)

    def _full_note(self, path: str) -> Note:
        current = self._known_files[path]
        self._announced_digests[path] = _digest(current.text)
        return _make_note(path, f"# Instructions from {printable_name(path)}\n\n{current.text}", current.text)

    def _discovery_notes(self, touched_paths: _UsedPaths, *, is_first_message: bool) -> Iterator[Note]:
        """Yield notes with the instruction files and rules that apply to the used paths, except those that the model
        has already seen."""
        project_folders = folders_down_to(self._root, self._project)
        for folder in project_folders if is_first_message else ():
            yield from self._read_folder_notes(folder, self._project)
        top_folders = [self._root, *map(Path, self._added_folders())]
        for path in touched_paths.used_paths:
            top = next((top_folder for top_folder in top_folders if path.is_relative_to(top_folder)), None)
            if top is None:
                continue
            folders = self._folders_down_to(path, top)
            for folder in folders if top != self._root else folders[1:]:
                yield from self._read_folder_notes(folder, top)
            for folder in (*project_folders, *folders[1:]) if top == self._root else folders:
                yield from self._notes_of_matching_rules(path, folder, top)
        for problem in self._reader.problems:
            if problem not in self._reported_problems:
                self._emit(Noticed(problem))
        self._reported_problems |= set(self._reader.problems)
        self._reader.problems.clear()

    def _read_folder_notes(self, folder: Path, top: Path) -> Iterator[Note]:
        if folder in self._searched_folders:
            return
        self._searched_folders.add(folder)
        for path in instruction_files_in(folder):
            if str(path) not in self._known_files:
                for file in read_with_imports(path, f"# Instructions from {path}", (top, self._root), self._reader):
                    yield from self._announce_file(file)

    def _notes_of_matching_rules(self, path: Path, folder: Path, top: Path) -> Iterator[Note]:
        """Yield notes with the rules of a folder that apply to a file in it."""
        if folder not in self._rules:
            self._rules[folder] = self._read_rules(folder, top)
        for rule in self._rules[folder]:
            is_applicable = rule.scope in ("always", "offered") or (rule.scope == "matching" and rule.applies_to(path))
            if (
                is_applicable
                and str(rule.path) not in self._known_files
                and self._reader.accept_text(rule.path, rule.text)
            ):
                yield from self._announce_file(rule.section)

    def _read_rules(self, folder: Path, top: Path) -> "tuple[ScopedRule, ...]":
        if not has_rule_folder(folder):
            return ()
        boundary = self._project if top == self._root else top
        return input.scoped_rules.read_rules(folder, boundary, self._reader)

    def _announce_file(self, file: InstructionFile) -> Iterator[Note]:
        self._known_files[file.path] = _KnownFile(_signature(file.path), file.text)
        if file.text:
            self._announced_digests[file.path] = _digest(file.text)
            yield _make_note(file.path, file.section_text, file.text)
            self._emit(
                Noticed(
                    f"`{printable_name(display_path(Path(file.path), self._root))}` loaded: its instructions "
                    "apply from now on"
                )
            )

    def _folders_down_to(self, path: Path, top: Path) -> tuple[Path, ...]:
        """Return the folders from `top` down to the folder of a path. The list stops before any folder whose files do
        not belong to the project."""
        folder = path if path.is_dir() else path.parent
        if folder not in self._folder_chains:
            self._folder_chains[folder] = tuple(_iter_project_folders(folder, top))
        return self._folder_chains[folder]


def _iter_project_folders(folder: Path, top: Path) -> Iterator[Path]:
    scope = search.walk.walk_scope(str(top))
    rules = search.walk.rules_in_folder(str(top), scope.outer_rules, scope.uses_repository_rules)
    yield top
    subfolder = top
    for name in folder.relative_to(top).parts:
        subfolder = subfolder / name
        if name in _EXTERNAL_FOLDERS or search.walk.is_ignored(str(subfolder), True, rules):
            return
        yield subfolder
        rules = search.walk.rules_in_folder(str(subfolder), rules, scope.uses_repository_rules)


def _collect_used_paths(message: User, conversation: Conversation, runner: CallRunner) -> _UsedPaths:
    """Return the files and folders used by the calls whose outputs are in the message, and the files and folders
    attached to the message."""
    used, written_paths = dict[Path, None](), dict[Path, None]()
    last_message = conversation.messages[-1] if conversation.messages else None
    calls = {call.id: call for call in last_message.calls} if isinstance(last_message, Assistant) else {}
    root = runner.workspace.root
    for output in message.outputs:
        if output.status not in ("done", "failed") or output.call_id not in calls:
            continue
        call = executed_call(calls[output.call_id], output)
        tool = runner.tools.get(call.name)
        if tool is None:
            continue
        subjects: tuple[str, ...] = ()
        with suppress(ToolError):  # the call's output already explains the error
            subjects = tool.subjects(call.arguments, runner.workspace)
        if tool.effect in ("read", "write"):
            used |= dict.fromkeys(map(Path, subjects))
            written_paths |= dict.fromkeys(map(Path, subjects if tool.effect == "write" else ()))
        elif tool.effect == "run":
            for file in (file for line in subjects for file in commands.named_files.find_named_files(line)):
                path = Path(os.path.normpath(root / os.path.expanduser(file.path)))
                (written_paths if file.is_changed else used)[path] = None
    attached = [part.name for part in message.parts if isinstance(part, Note) and part.kind in ("file", "folder")]
    for name in attached:
        with suppress(ToolError):
            used[locate_path(name, runner.workspace)] = None
    candidates = (*used, *(path for path in written_paths if path not in used))
    return _UsedPaths(tuple(path for path in candidates if os.path.lexists(path)), tuple(written_paths))


def instruction_notes(conversation: Conversation) -> Iterator[Note]:
    """Yield the instruction notes in the view; a note's name is the path of its file."""
    for message in (conversation.summary.request, *conversation.messages):
        if isinstance(message, User):
            yield from (part for part in message.parts if isinstance(part, Note) and part.kind == "instructions")


def _make_note(path: str, text: str, content: str) -> Note:
    return Note(text, kind="instructions", name=path, about=_digest(content))


def _fit_notes(notes: Sequence[Note], remaining_bytes: int) -> Iterator[Note]:
    """Yield the notes that fit. Notes that do not fit are replaced by the name of their file."""
    for note in notes:
        size = len(note.text.encode("utf-8", "replace"))
        if size <= remaining_bytes:
            remaining_bytes -= size
            yield note
        else:
            yield replace(
                note, text=f"[`{printable_name(note.name)}` contains instructions: read it before you continue there.]"
            )


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def _signature(path: str) -> FileSignature:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _real_path(path: str) -> Path:
    try:
        return Path(os.path.realpath(path))
    except (OSError, ValueError):  # the path is not a valid file name
        return Path(path)
