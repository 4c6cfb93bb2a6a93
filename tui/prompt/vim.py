"""A state machine for vi keys."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

VimMode: TypeAlias = Literal["insert", "normal"]
VimRequest: TypeAlias = Literal["", "pass", "undo", "redo", "up", "down"]
"""What the widget must do: nothing, handle the key itself (`pass`), undo, redo, or move up or down past the text."""
VimExtent: TypeAlias = Literal["exclusive", "inclusive", "lines"]
"""The kind of range that an operator covers with a motion."""

_COMMAND_PATTERN = re.compile(r"(?P<count>[1-9]\d*)?(?P<operator>[dcy])?(?P<again>[1-9]\d*)?(?P<rest>.*)", re.DOTALL)
_MOTIONS = ("h", "j", "k", "l", "w", "b", "e", "0", "^", "$", "gg", "G")
_CHANGE_COMMANDS = ("x", "D", "C", "i", "a", "I", "A", "o", "O", "p", "P")
COMMAND_PREFIXES = "/!#@"
"""Characters that start a command or mention. In an empty prompt, they are inserted even in normal mode."""
_MAX_COUNT = 9_999
"""The largest repeat count."""


@dataclass(frozen=True, slots=True)
class RepeatableChange:
    """The last change, to be repeated by `.`."""

    keys: tuple[str, ...] = ()
    typed_text: str = ""
    """The text typed in insert mode."""


@dataclass(frozen=True, slots=True)
class Vim:
    mode: VimMode = "insert"
    pending: str = ""
    """The keys of an incomplete command."""
    register: str = ""
    is_linewise: bool = False
    """Whether the register holds whole lines."""
    last_change: RepeatableChange = RepeatableChange()  # a safe default, because it is frozen
    insert_start: tuple[str, int] | None = None
    """The text and cursor at the time insert mode was entered."""

    @property
    def status_text(self) -> str:
        """The mode and any pending keys."""
        return f"{self.mode.upper()} {self.pending}".rstrip()


@dataclass(frozen=True, slots=True)
class VimStep:
    vim: Vim
    text: str
    cursor: int
    """Number of characters before the cursor."""
    request: VimRequest = ""


def press_key(vim: Vim, key: str, text: str, cursor: int) -> VimStep:
    """Apply a key to the text. `key`: a character, or the name of a key."""
    if vim.mode == "insert":
        return _leave_insert(vim, text, cursor) if key == "escape" else VimStep(vim, text, cursor, "pass")
    if key == "escape" and vim.pending:
        return VimStep(replace(vim, pending=""), text, cursor)
    if key == "ctrl+r":
        return VimStep(replace(vim, pending=""), text, cursor, "redo")
    if len(key) != 1:
        return VimStep(replace(vim, pending=""), text, cursor, "pass")
    if key in COMMAND_PREFIXES and not text and not vim.pending:
        return VimStep(replace(vim, mode="insert"), key, 1)
    return _run_command(vim, vim.pending + key, text, cursor)


def _run_command(vim: Vim, keys: str, text: str, cursor: int) -> VimStep:
    match = _COMMAND_PATTERN.fullmatch(keys)
    if match is None:
        return VimStep(replace(vim, pending=""), text, cursor)
    command, operator = match["rest"], match["operator"]
    count = min(int(match["count"] or 1) * int(match["again"] or 1), _MAX_COUNT)
    has_count = bool(match["count"] or match["again"])
    if command in ("", "g"):
        return VimStep(replace(vim, pending=keys), text, cursor)
    vim = replace(vim, pending="")
    if operator and (command == operator or command in _MOTIONS):
        return _run_operator(vim, keys, operator, command, count, has_count, text, cursor)
    if operator:
        return VimStep(vim, text, cursor)
    if command in _MOTIONS:
        return _move(vim, command, count, has_count, text, cursor)
    if command == "u":
        return VimStep(vim, text, cursor, "undo")
    if command == ".":
        return _repeat_change(vim, text, cursor)
    if command in _CHANGE_COMMANDS:
        return _run_change(vim, keys, command, count, text, cursor)
    return VimStep(vim, text, cursor)


def _leave_insert(vim: Vim, text: str, cursor: int) -> VimStep:
    last_change = vim.last_change
    if vim.insert_start is not None:
        old_text, offset = vim.insert_start
        typed = text[offset : len(text) - (len(old_text) - offset)]
        if text[:offset] == old_text[:offset] and text[offset + len(typed) :] == old_text[offset:]:
            last_change = replace(last_change, typed_text=typed)
    new_cursor = cursor - 1 if cursor > _line_start(text, cursor) else cursor
    return VimStep(
        replace(vim, mode="normal", pending="", insert_start=None, last_change=last_change), text, new_cursor
    )


def _enter_insert(vim: Vim, keys: str, text: str, cursor: int) -> VimStep:
    return VimStep(
        replace(vim, mode="insert", last_change=RepeatableChange(tuple(keys)), insert_start=(text, cursor)),
        text,
        cursor,
    )


def _repeat_change(vim: Vim, text: str, cursor: int) -> VimStep:
    last_change, step = vim.last_change, VimStep(vim, text, cursor)
    for key in last_change.keys:
        step = press_key(step.vim, key, step.text, step.cursor)
    if step.vim.mode == "insert":
        text = step.text[: step.cursor] + last_change.typed_text + step.text[step.cursor :]
        step = press_key(step.vim, "escape", text, step.cursor + len(last_change.typed_text))
    return replace(step, vim=replace(step.vim, last_change=last_change))


# Motions


def _move(vim: Vim, motion: str, count: int, has_count: bool, text: str, cursor: int) -> VimStep:
    target, _ = _find_motion_target(motion, count, has_count, text, cursor)
    if motion in ("j", "k") and _line_start(text, target) == _line_start(text, cursor):
        return VimStep(vim, text, cursor, "down" if motion == "j" else "up")
    return VimStep(vim, text, _clamp_to_character(text, target))


def _find_motion_target(motion: str, count: int, has_count: bool, text: str, cursor: int) -> tuple[int, VimExtent]:
    """Find the position that a motion leads to, at most the end of the text. Also returns the kind of range that the
    motion covers."""
    match motion:
        case "h":
            return max(cursor - count, _line_start(text, cursor)), "exclusive"
        case "l":
            return min(cursor + count, _line_end(text, cursor)), "exclusive"
        case "0":
            return _line_start(text, cursor), "exclusive"
        case "^":
            return _first_nonblank(text, cursor), "exclusive"
        case "$":
            end = _line_end(text, _line_down(text, cursor, count - 1))
            return max(end - 1, _line_start(text, end)), "inclusive"
        case "w":
            return _repeat_motion(_next_word, text, cursor, count), "exclusive"
        case "b":
            return _repeat_motion(_previous_word, text, cursor, count), "exclusive"
        case "e":
            return _repeat_motion(_word_end, text, cursor, count), "inclusive"
        case "j":
            return _line_down(text, cursor, count), "lines"
        case "k":
            return _line_down(text, cursor, -count), "lines"
        case "gg":
            return _first_nonblank(text, _line_offset(text, count if has_count else 1)), "lines"
        case _:
            last_line = text.count("\n") + 1
            return _first_nonblank(text, _line_offset(text, count if has_count else last_line)), "lines"


def _repeat_motion(motion: Callable[[str, int], int], text: str, cursor: int, count: int) -> int:
    for _ in range(count):
        new_cursor = motion(text, cursor)
        if new_cursor == cursor:
            break
        cursor = new_cursor
    return cursor


def _char_class(character: str) -> int:
    return 0 if character.isspace() else 1 if character.isalnum() or character == "_" else 2


def _next_word(text: str, index: int) -> int:
    if index < len(text):
        kind = _char_class(text[index])
        while index < len(text) and kind and _char_class(text[index]) == kind:
            index += 1
        while index < len(text) and not _char_class(text[index]):
            index += 1
    return index


def _previous_word(text: str, index: int) -> int:
    while index > 0 and not _char_class(text[index - 1]):
        index -= 1
    if index > 0:
        kind = _char_class(text[index - 1])
        while index > 0 and _char_class(text[index - 1]) == kind:
            index -= 1
    return index


def _word_end(text: str, index: int) -> int:
    end = index + 1
    while end < len(text) and not _char_class(text[end]):
        end += 1
    if end >= len(text):
        return index
    kind = _char_class(text[end])
    while end + 1 < len(text) and _char_class(text[end + 1]) == kind:
        end += 1
    return end


def _line_start(text: str, index: int) -> int:
    return text.rfind("\n", 0, index) + 1


def _line_end(text: str, index: int) -> int:
    end = text.find("\n", index)
    return len(text) if end < 0 else end


def _first_nonblank(text: str, index: int) -> int:
    start, end = _line_start(text, index), _line_end(text, index)
    line = text[start:end]
    return start + min(len(line) - len(line.lstrip()), max(len(line) - 1, 0))


def _line_offset(text: str, line_number: int) -> int:
    offset = 0
    for _ in range(min(line_number - 1, text.count("\n"))):
        offset = text.index("\n", offset) + 1
    return offset


def _line_down(text: str, index: int, count: int) -> int:
    """Find the index `count` lines down (up if negative), in the same column if the line is long enough."""
    start = _line_start(text, index)
    column = index - start
    line_number = text.count("\n", 0, index) + 1
    target = _line_offset(text, max(1, line_number + count))
    return min(target + column, _line_end(text, target))


def _clamp_to_character(text: str, index: int) -> int:
    """If `index` is at the end of a line, move it back to the line's last character."""
    start, end = _line_start(text, index), _line_end(text, index)
    return index if index < end else max(start, end - 1)


# Changes


def _run_operator(
    vim: Vim, keys: str, operator: str, motion: str, count: int, has_count: bool, text: str, cursor: int
) -> VimStep:
    if motion == operator:
        return _operate_lines(vim, keys, operator, cursor, _line_down(text, cursor, count - 1), text, cursor)
    is_on_word = cursor < len(text) and not text[cursor].isspace()
    if operator == "c" and motion == "w" and is_on_word:
        motion = "e"
        target = _word_end_from(text, cursor, count)
        extent: VimExtent = "inclusive"
    else:
        target, extent = _find_motion_target(motion, count, has_count, text, cursor)
    if extent == "lines":
        return _operate_lines(vim, keys, operator, min(cursor, target), max(cursor, target), text, cursor)
    if motion == "w":  # a final `w` does not include the line ending
        target = min(target, max(_line_end(text, cursor), _first_nonblank(text, target) if count > 1 else 0))
    start, end = min(cursor, target), max(cursor, target) + (extent == "inclusive")
    end = min(end, len(text)) if motion != "$" else min(end, _line_end(text, max(cursor, target)))
    return _apply_operator(vim, keys, operator, start, end, text)


def _word_end_from(text: str, cursor: int, count: int) -> int:
    """Find the end of the word at the cursor or, with a count, of a later word."""
    index = cursor
    while index + 1 < len(text) and _char_class(text[index + 1]) == _char_class(text[cursor]):
        index += 1
    return _repeat_motion(_word_end, text, index, count - 1) if count > 1 else index


def _apply_operator(vim: Vim, keys: str, operator: str, start: int, end: int, text: str) -> VimStep:
    vim = replace(vim, register=text[start:end], is_linewise=False)
    if operator == "y":
        return VimStep(vim, text, _clamp_to_character(text, start))
    new_text = text[:start] + text[end:]
    if operator == "c":
        return _enter_insert(vim, keys, new_text, start)
    return VimStep(
        replace(vim, last_change=RepeatableChange(tuple(keys))), new_text, _clamp_to_character(new_text, start)
    )


def _operate_lines(
    vim: Vim, keys: str, operator: str, first_index: int, last_index: int, text: str, cursor: int
) -> VimStep:
    start, end = _line_start(text, first_index), _line_end(text, last_index)
    vim = replace(vim, register=text[start:end], is_linewise=True)
    if operator == "y":
        return VimStep(
            vim, text, _clamp_to_character(text, start) if first_index < _line_start(text, cursor) else cursor
        )
    if operator == "c":
        return _enter_insert(vim, keys, text[:start] + text[end:], start)
    vim = replace(vim, last_change=RepeatableChange(tuple(keys)))
    if end < len(text):
        new_text = text[:start] + text[end + 1 :]
    else:
        new_text = text[: max(start - 1, 0)]
        start = _line_start(new_text, len(new_text))
    return VimStep(vim, new_text, _first_nonblank(new_text, start))


def _run_change(vim: Vim, keys: str, command: str, count: int, text: str, cursor: int) -> VimStep:
    start, end = _line_start(text, cursor), _line_end(text, cursor)
    match command:
        case "x":
            return _apply_operator(vim, keys, "d", cursor, min(cursor + count, end), text)
        case "D" | "C":
            target_end = _line_end(text, _line_down(text, cursor, count - 1))
            return _apply_operator(vim, keys, "d" if command == "D" else "c", cursor, target_end, text)
        case "i":
            return _enter_insert(vim, keys, text, cursor)
        case "a":
            return _enter_insert(vim, keys, text, min(cursor + 1, end))
        case "I":
            return _enter_insert(vim, keys, text, _first_nonblank(text, cursor))
        case "A":
            return _enter_insert(vim, keys, text, end)
        case "o":
            return _enter_insert(vim, keys, f"{text[:end]}\n{text[end:]}", end + 1)
        case "O":
            return _enter_insert(vim, keys, f"{text[:start]}\n{text[start:]}", start)
        case _:
            return _paste(vim, keys, count, text, cursor, is_after=command == "p")


def _paste(vim: Vim, keys: str, count: int, text: str, cursor: int, *, is_after: bool) -> VimStep:
    if not vim.register and not vim.is_linewise:
        return VimStep(vim, text, cursor)
    count = min(count, max(1, 1_000_000 // (len(vim.register) + 1)))
    vim = replace(vim, last_change=RepeatableChange(tuple(keys)))
    if vim.is_linewise:
        block = "\n".join([vim.register] * count)
        index = _line_end(text, cursor) if is_after else _line_start(text, cursor)
        new_text = f"{text[:index]}\n{block}{text[index:]}" if is_after else f"{text[:index]}{block}\n{text[index:]}"
        return VimStep(vim, new_text, _first_nonblank(new_text, index + is_after))
    block = vim.register * count
    index = min(cursor + is_after, _line_end(text, cursor))
    new_text = text[:index] + block + text[index:]
    return VimStep(vim, new_text, _clamp_to_character(new_text, index + len(block) - 1))
