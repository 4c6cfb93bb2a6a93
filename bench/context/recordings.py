"""Reads recorded sessions of coding agents from files, as steps with calls and outputs. Tool names are converted to
ours.

A recording is a JSON Lines file with these rows, in order: `{"t": "user", "text", "ts"}`, `{"t": "assistant", "text",
"think", "calls": [{"id", "name", "args"}], "ts"}` and `{"t": "output", "id", "text", "err", "ts"}`. `ts` is in seconds,
`think` in characters. A `compacted` row marks a summary by the recorded agent. Invalid rows are counted by kind, and
recordings that cannot be replayed are skipped. Scripts of Codex's code mode are read as the calls that they make (see
`bench.context.code_mode`). This module imports nothing of the context engine that it serves to measure.
"""

import json
import re
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Literal, TypeAlias

from bench.context.clock import correct_times
from bench.context.code_mode import NestedCall, nested_calls, without_lone_surrogates

Kind: TypeAlias = Literal["read", "bash", "grep", "edit", "task", "other"]
KINDS: tuple[Kind, ...] = ("read", "bash", "grep", "edit", "task", "other")
"""Kinds of outputs. `task` is a report of a sub-agent."""

_TOOL_NAMES: dict[str, tuple[str, Kind]] = {
    **dict.fromkeys(("read", "view", "notebookread", "read_file"), ("read", "read")),
    **dict.fromkeys(("bash", "exec_command", "shell", "local_shell", "container.exec"), ("bash", "bash")),
    **dict.fromkeys(("write_stdin", "read_bash", "bashoutput", "taskoutput"), ("bash_output", "bash")),
    **dict.fromkeys(("stop_bash", "killshell", "killbash", "taskstop"), ("bash_kill", "bash")),
    "grep": ("grep", "grep"),
    **dict.fromkeys(("glob", "list", "ls"), ("glob", "grep")),
    **dict.fromkeys(("edit", "multiedit", "notebookedit", "str_replace"), ("edit", "edit")),
    **dict.fromkeys(("write", "create"), ("write", "edit")),
    "apply_patch": ("apply_patch", "edit"),
    **dict.fromkeys(("task", "agent"), ("task", "task")),
}
"""Our tool name and the kind of output, by the recorded tool name in lower case."""
_ARGUMENT_NAMES = {
    **dict.fromkeys(("file_path", "filePath"), "path"),
    **dict.fromkeys(("old_string", "oldString", "old_str"), "old"),
    **dict.fromkeys(("new_string", "newString", "new_str"), "new"),
    **dict.fromkeys(("cmd",), "command"),
    **dict.fromkeys(("file_text",), "content"),
    **dict.fromkeys(("shellId", "session_id", "task_id", "bash_id", "cell_id"), "job"),
    "replaceAll": "replace_all",
}
_AGENT_TOOLS = (("Codex", {"exec_command", "write_stdin", "update_plan", "local_shell"}),
           ("Claude Code", {"Bash", "Read", "Edit", "Grep"}),
           ("Copilot", {"view", "read_bash", "stop_bash", "str_replace_editor", "report_intent"}),
           ("OpenCode", {"bash", "read", "edit", "todowrite"}))  # fmt: skip
"""Agents, each with tool names that identify it; the first match wins."""
_FILE_NAME = re.compile(r"(?P<project>.+?)-(?:claudecode|codex|opencode|copilot(?:cli)?)-\d+")
_LINE_NUMBER = re.compile(r"^ *(\d+)→", re.MULTILINE)
"""Claude Code's line numbers in files; ours use a tab."""
_FAILED_EXIT = re.compile(
    r"\A(?:(?:Chunk ID|Wall time|Exit code)[^\0]{0,200}?(?:exited with code|Exit code:?) [1-9]\d*|Script failed)\n"
)

MAX_TIME_SECONDS = 1e12
"""Maximum time in Unix seconds; later times are treated as missing."""
LARGE_OUTPUT_CHARS = 1_000_000
"""Minimum size in characters of outputs that are reported as large."""
MAX_FOREIGN_SHARE = 0.2
"""Maximum share of non-Latin letters in a session; if there are more, it is reported as not English."""
MAX_INTERLEAVED_SHARE = 0.1
"""Maximum share of calls that are answered after a later reply. A recording with more is assumed to contain two agents.
"""
MAX_NESTING = 100
"""Maximum nesting of a row; deeper rows are treated as invalid."""
OUR_TOOLS = frozenset(
    {
        *("apply_patch", "ask_user", "bash", "bash_kill", "bash_output", "call_tool", "compact_context", "edit"),
        *("edit_notebook", "glob", "grep", "read", "read_result", "recall", "task", "todo", "tool_search", "web_fetch"),
        *("web_search", "write"),
    }
)
NOT_RECORDED = "[no output was recorded]"


@dataclass(frozen=True, slots=True)
class RecordedCall:
    id: str
    tool: str
    """Our tool name, if there is one."""
    kind: Kind
    arguments: Mapping[str, object]
    output: str = NOT_RECORDED
    failed: bool = False


@dataclass(frozen=True, slots=True)
class RecordedStep:
    user_texts: tuple[str, ...]
    """User messages since the previous step."""
    asked_at: float
    """Time of its request in seconds, never decreasing."""
    text: str
    thought_chars: int
    """Number of characters of thinking, which `text` does not contain."""
    calls: tuple[RecordedCall, ...]


@dataclass(frozen=True, slots=True)
class Recording:
    name: str
    project: str
    agent: str
    steps: tuple[RecordedStep, ...]
    problems: Mapping[str, int] = field(default_factory=dict)
    """Problems with their counts; none prevents a replay."""

    @property
    def characters(self) -> int:
        """Characters of all messages, calls and outputs."""
        return sum(
            sum(map(len, step.user_texts))
            + len(step.text)
            + sum(len(call.output) + call_chars(call) for call in step.calls)
            for step in self.steps
        )


@dataclass(frozen=True, slots=True)
class SkippedRecording:
    name: str
    why: str


def call_chars(call: RecordedCall) -> int:
    """Return the size of a call's arguments in characters."""
    return len(json.dumps(dict(call.arguments), ensure_ascii=False))


def strings_in(value: object) -> Iterator[str]:
    """Yield all strings in a value of JSON, in order, without the keys of objects."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping | list | tuple):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from strings_in(item)


def read_folder(folder: Path, names: Container[str] | None = None) -> tuple[list[Recording], list[SkippedRecording]]:
    """Return the recordings in a folder (`*.jsonl`), sorted by name, and the ones that cannot be replayed. `names`: the
    recordings to read; None for all."""
    paths = [path for path in sorted(folder.glob("*.jsonl")) if names is None or path.stem in names]
    found = [read_recording(path) for path in paths]
    recordings = [one for one in found if isinstance(one, Recording)]
    return recordings, [one for one in found if isinstance(one, SkippedRecording)]


def read_recording(path: Path) -> Recording | SkippedRecording:
    troubles: Counter[str] = Counter()
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            rows = list(_rows(file, troubles))
    except OSError as error:
        return SkippedRecording(path.stem, f"it cannot be read: {error.strerror}")
    if not rows:
        return SkippedRecording(path.stem, "no row is in it" if troubles else "it is empty")
    reader = _Reader(troubles)
    for row, at in zip(rows, _row_times(rows, troubles), strict=True):
        reader.add_row(row, at)
    steps = reader.finished_steps()
    calls = sum(len(step.calls) for step in steps)
    if not steps:
        return SkippedRecording(path.stem, "no reply of a model is in it")
    late = troubles["output after a later reply"]
    if late > max(2, MAX_INTERLEAVED_SHARE * calls):
        return SkippedRecording(
            path.stem, f"two agents are interleaved: {late} of {calls} calls are answered after later replies"
        )
    if _foreign_share(steps) > MAX_FOREIGN_SHARE:
        troubles["not in English"] = 1
    project = match["project"] if (match := _FILE_NAME.fullmatch(path.stem)) else re.sub(r"[-_]\d+$", "", path.stem)
    return Recording(path.stem, project, _detect_agent(rows), steps, dict(+troubles))


def join_recordings(recordings: Sequence[Recording]) -> list[Recording]:
    """Join the recordings of each project and agent into one, ordered by time."""
    groups: dict[tuple[str, str], list[Recording]] = {}
    for recording in recordings:
        groups.setdefault((recording.project, recording.agent), []).append(recording)
    return [_join_group(group) for group in groups.values()]


def _join_group(group: list[Recording]) -> Recording:
    ordered = sorted(group, key=lambda one: (one.steps[0].asked_at, one.name))
    steps: list[RecordedStep] = []
    for number, recording in enumerate(ordered):
        for step in recording.steps:
            calls = tuple(replace(call, id=f"{number}-{call.id}") for call in step.calls)
            at = max(step.asked_at, steps[-1].asked_at if steps else step.asked_at)
            texts = step.user_texts if step is not recording.steps[0] or step.user_texts else ("go on",)
            steps.append(replace(step, user_texts=texts, asked_at=at, calls=calls))
    troubles = sum((Counter(one.problems) for one in ordered), Counter[str]())
    first = ordered[0]
    return Recording(
        f"{first.project}, {first.agent}, {len(ordered)}", first.project, first.agent, tuple(steps), troubles
    )


def _rows(lines: Iterator[str], problems: Counter[str]) -> Iterator[Mapping[str, Any]]:
    for line in lines:
        if not line.strip():
            continue
        row = _parse_row(line)
        if isinstance(row, dict) and row.get("t") in ("user", "assistant", "output", "compacted"):
            yield row
        else:
            is_cut = row is None and not line.endswith("\n")
            problems["last line that is cut off" if is_cut else "line that is no row"] += 1


def _parse_row(line: str) -> object:
    """Return the JSON value in a line, with None for `NaN`; None if it is invalid or nested too deep."""
    try:
        row: object = json.loads(line, parse_constant=lambda _: None)
        if "\\ud" in line.lower():  # a lone surrogate cannot be sent
            row = json.loads(without_lone_surrogates(json.dumps(row, ensure_ascii=False)))
    except (ValueError, RecursionError):
        return None
    level = [row]
    for _ in range(MAX_NESTING):
        level = [
            item
            for value in level
            if isinstance(value, dict | list)
            for item in (value.values() if isinstance(value, dict) else value)
        ]
    return None if level else row


def _row_times(rows: Sequence[Mapping[str, Any]], problems: Counter[str]) -> list[float]:
    """Return the times of the rows, never decreasing."""
    times = [_valid_time(row.get("ts")) for row in rows]
    corrected, out_of_order = correct_times(times)
    problems["row without a time"] += times.count(None)
    problems["time out of order"] += out_of_order
    return corrected


def _valid_time(at: object) -> float | None:
    is_valid = isinstance(at, int | float) and not isinstance(at, bool) and abs(at) < MAX_TIME_SECONDS
    return float(at) if is_valid and isinstance(at, int | float) else None


def _detect_agent(rows: Sequence[Mapping[str, Any]]) -> str:
    calls = [call for row in rows if row["t"] == "assistant" for call in _calls_of(row)]
    names = {call["name"] for call in calls} | {
        nested.name for call in calls if (code := _code_of(call)) for nested in nested_calls(code)
    }
    return next((agent for agent, known in _AGENT_TOOLS if known & names), "unknown")


def _calls_of(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    calls = row.get("calls")
    return [
        call
        for call in (calls if isinstance(calls, list) else [])
        if isinstance(call, dict) and isinstance(call.get("id"), str) and isinstance(call.get("name"), str)
    ]


def _count_calls(row: Mapping[str, Any]) -> int:
    """Return the number of calls in a reply, valid or not."""
    calls = row.get("calls")
    return len(calls) if isinstance(calls, list) else calls is not None


@dataclass(slots=True)
class _Draft:
    """A step whose outputs are still being read."""

    user_texts: list[str]
    asked_at: float
    text: str = ""
    thought: int = 0
    calls: list[RecordedCall] = field(default_factory=list)


@dataclass(slots=True)
class _Reader:
    """Groups rows into steps. Consecutive replies are merged. A reply without calls is merged with the next reply
    unless a user message follows, because only then has the turn ended."""

    problems: Counter[str]
    drafts: list[_Draft] = field(default_factory=list)
    _user_texts: list[str] = field(default_factory=list)
    _asked_at: float = 0.0
    """Time of the last row that the model sees."""
    _follows_reply: bool = False
    """Whether the previous row was a reply."""
    _call_positions: dict[str, tuple[int, int]] = field(default_factory=dict)
    """Step and index of the newest call with each recorded id."""
    _answered: set[tuple[int, int]] = field(default_factory=set)
    _ids: set[str] = field(default_factory=set)

    def add_row(self, row: Mapping[str, Any], now: float) -> None:
        """Add a row. `now`: its corrected time."""
        if row["t"] in ("user", "output") and not isinstance(row.get("text"), str):
            self.problems["row without a text"] += 1
        match row["t"]:
            case "user" if text := _row_text(row):
                self._user_texts.append(text)
                self._asked_at, self._follows_reply = now, False
            case "assistant":
                self._add_reply(row)
                self._follows_reply = True
            case "output":
                self._add_output(row)
                self._asked_at, self._follows_reply = now, False

    def _add_reply(self, row: Mapping[str, Any]) -> None:
        last = self.drafts[-1] if self.drafts else None
        if last is None or self._user_texts or not (self._follows_reply or not last.calls):
            last = _Draft(self._user_texts or ([] if self.drafts else ["go on"]), self._asked_at)
            self.drafts.append(last)
            self._user_texts = []
        last.text = "\n\n".join(filter(None, (last.text, _row_text(row))))
        last.thought += max(row["think"], 0) if isinstance(row.get("think"), int) else 0
        calls = _calls_of(row)
        self.problems["call without an id or a name"] += _count_calls(row) - len(calls)
        for call in calls:
            self._add_call(call["id"], _recorded_call(call), last)

    def _add_call(self, recorded_id: str, call: RecordedCall, draft: _Draft) -> None:
        if place := self._call_positions.get(recorded_id):
            past = self.drafts[place[0]].calls[place[1]]
            if (past.tool, past.arguments) == (call.tool, call.arguments):
                self.problems["call that is repeated"] += 1
                return
            self.problems["call with the id of another"] += 1
        unique = next(
            id for number in count(1) if (id := f"{call.id}-{number}" if number > 1 else call.id) not in self._ids
        )
        self._ids.add(unique)
        self._call_positions[recorded_id] = (len(self.drafts) - 1, len(draft.calls))
        draft.calls.append(replace(call, id=unique))

    def _add_output(self, row: Mapping[str, Any]) -> None:
        place, text = self._call_positions.get(str(row.get("id"))), _row_text(row)
        if place is None:
            self.problems["output that answers no call"] += 1
            return
        if place in self._answered:
            self.problems["second output of a call"] += 1
            return
        self._answered.add(place)
        step, index = place
        if step != len(self.drafts) - 1:
            self.problems["output after a later reply"] += 1
        if len(text) > LARGE_OUTPUT_CHARS:
            self.problems["output over a million characters"] += 1
        call = self.drafts[step].calls[index]
        text = _LINE_NUMBER.sub(r"\1\t", text) if call.kind == "read" else text
        failed = row.get("err") is True or bool(_FAILED_EXIT.match(text))
        self.drafts[step].calls[index] = replace(call, output=text, failed=failed)

    def finished_steps(self) -> tuple[RecordedStep, ...]:
        self.problems["call never answered"] += sum(len(draft.calls) for draft in self.drafts) - len(self._answered)
        return tuple(
            RecordedStep(tuple(draft.user_texts), draft.asked_at, draft.text, draft.thought, tuple(draft.calls))
            for draft in self.drafts
            if draft.text or draft.calls
        )


def _recorded_call(call: Mapping[str, Any]) -> RecordedCall:
    name, arguments = call["name"], call.get("args")
    if code := _code_of(call):
        name, arguments = _script_call(code)
    if not isinstance(arguments, dict):
        arguments = {"input": arguments} if arguments else {}
    if name == "wait" and "cell_id" in arguments:  # waits for a script of Codex's code mode
        name = "write_stdin"
    tool, kind = _known_tool(name)
    arguments = {_ARGUMENT_NAMES.get(key, key): value for key, value in arguments.items()}
    if tool == "apply_patch" and "input" in arguments:
        arguments["patch"] = arguments.pop("input")
    if isinstance(command := arguments.get("command"), list):
        arguments["command"] = str(command[-1]) if command else ""
    tool = tool or re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:60] or "tool"
    if kind == "other" and tool in OUR_TOOLS:
        tool = f"{tool}_recorded"  # renamed, because running our own tool would repeat the recorded effects
    return RecordedCall(_valid_call_id(call["id"]), tool, kind, arguments)


def _known_tool(name: str) -> tuple[str, Kind]:
    """Return our tool name, empty if there is none, and the kind of output of a recorded tool."""
    return _TOOL_NAMES.get(re.split(r"[^\w.]", name.lower())[0], ("", "other"))


def _code_of(call: Mapping[str, Any]) -> str:
    """Return the script of a call in Codex's code mode; empty for other calls."""
    arguments = call.get("args")
    code = arguments.get("input") if isinstance(arguments, dict) else arguments
    return code if call["name"] == "exec" and isinstance(code, str) else ""


def _script_call(code: str) -> tuple[str, object]:
    """Return the tool and the arguments of the call that equals a script: its only call, or one shell command for
    several. The code replaces arguments that are not known. If a script calls different tools or none, its tool is
    `exec`."""
    calls = nested_calls(code)
    if len({_known_tool(call.name)[0] or call.name for call in calls}) != 1:
        return "exec", {"input": code}
    name = calls[0].name
    is_shell = _known_tool(name)[0] == "bash"
    if is_shell and all(commands := [_command_of(call) for call in calls]) and len(calls) > 1:
        return name, {"cmd": "\n".join(commands)}
    if len(calls) > 1 or calls[0].argument is None or (is_shell and not commands[0]):
        return name, {"cmd" if is_shell else "input": code}
    return name, calls[0].argument


def _command_of(call: NestedCall) -> str:
    """Return the shell command of a call; empty if it is not known."""
    command = call.argument.get("cmd") if isinstance(call.argument, dict) else None
    return command if isinstance(command, str) else ""


def _valid_call_id(id: object) -> str:
    """Return the id with only the characters that are valid in call ids."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", str(id)) or "call"


def _row_text(row: Mapping[str, Any]) -> str:
    text = row.get("text")
    return text if isinstance(text, str) else ""


def _foreign_share(steps: Sequence[RecordedStep]) -> float:
    letters = [
        letter for step in steps for text in (*step.user_texts, step.text) for letter in text if letter.isalpha()
    ]
    return sum(letter > "\u024f" for letter in letters) / max(len(letters), 1)
