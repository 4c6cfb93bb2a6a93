"""Translates the arguments of other agents' tools into those of ours: other names, and values with another meaning.
Pure."""

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from ebbtide.agent.calls.tool_aliases import EDITORS, LISTERS, TYPED_ARGUMENTS, TYPERS, by_name, plain_name
from ebbtide.tools.base import Arguments, ToolError
from ebbtide.tools.lazy import regex
from ebbtide.tools.outputs.extent import ellipsize

Values: TypeAlias = dict[str, object]

_FILE = "file_path file filename absolute_path target_file relative_path notebook_path"
_FOLDER = (
    "directory dir folder dir_path directory_path search_path search_directory relative_workspace_path target_directory"
)
_JOB = "bash_id job_id id shell_id task_id terminal_id process_id session_id"

_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "bash": {
        "command": "cmd script input commandline command_line shell_command code",
        "background": "run_in_background is_background",
        "workdir": "working_directory working_dir cwd directory dir dir_path",
    },
    "read": {
        "path": _FILE,
        "offset": "start_line start_line_one_indexed line_start line_offset",
        "limit": "max_lines num_lines line_count n_lines",
    },
    "write": {"path": _FILE, "content": "contents file_text text data input file_content code"},
    "edit": {
        "path": _FILE,
        "old": "old_string old_str old_text old_content search find original target_content",
        "new": "new_string new_str new_text new_content replace replacement updated replacement_content",
        "replace_all": "allow_multiple",
    },
    "apply_patch": {"patch": "input patch_text diff content"},
    "grep": {
        "pattern": "query regex regexp search_pattern search term",
        "path": f"{_FILE} {_FOLDER}",
        "glob": "include include_pattern file_pattern file_glob",
        "ignore_case": "i case_insensitive",
        "limit": "head_limit max_results max_count",
        "mode": "output_mode",
        "context": "context_lines",
    },
    "glob": {"pattern": "query glob glob_pattern file_pattern search_pattern", "path": f"{_FOLDER} cwd"},
    "edit_notebook": {
        "path": _FILE,
        "action": "edit_mode edit_type mode",
        "cell": "cell_id",
        "source": "new_source new_code new_content content",
        "type": "cell_type",
    },
    "todo": {"items": "todos plan todo_list tasks list"},
    "bash_output": {"job": f"{_JOB} command cmd", "wait": "timeout"},
    "bash_kill": {"job": f"{_JOB} command cmd"},
    "ask_user": {"question": "prompt message text", "options": "choices follow_up suggestions"},
    "task": {"agent": "subagent_type agent_type agent_name subagent"},
    "web_fetch": {"url": "uri link urls"},
    "web_search": {"query": "q search_term search"},
    "final_report": {"report": "result answer text summary"},
    "submit_plan": {"plan": "text markdown content response proposal"},
}
"""Other agents' names for our arguments."""

_IDLE = frozenset(
    {
        "description", "explanation", "summary", "thought", "thinking", "reason", "justification", "requiresapproval",
        "safetoautorun", "withescalatedpermissions", "sandboxpermissions", "securityrisk", "isinput", "merge", "n",
        "shouldreadentirefile", "expectedreplacements", "expectedcount", "ignore", "multiselect", "header", "block",
        "yieldtimems", "maxoutputtokens", "login", "tty", "isregexp", "recursive", "respectgitignore", "instruction",
        "goal", "displaydescription",
    }
)  # fmt: skip
"""Arguments of other agents that have no effect here; they are dropped without a note."""

_OUR_ARGUMENTS = {tool: by_name(names) for tool, names in _ARGUMENTS.items()}

_STATUSES = {
    "pending": "pending", "todo": "pending", "notstarted": "pending", "open": "pending", "blocked": "pending",
    "cancelled": "done",
    "inprogress": "doing", "active": "doing", "doing": "doing", "started": "doing",
    "completed": "done", "complete": "done", "done": "done", "finished": "done", "closed": "done",
}  # fmt: skip
_MARKS = {" ": "pending", "": "pending", "-": "doing", "~": "doing", ">": "doing", "x": "done", "X": "done"}
_LIST_ITEM = regex(r"\s*(?:[-*]|\d+[.)])?\s*\[(?P<mark>.?)\]\s*(?P<text>.+)")
_SHELLS = ("bash", "sh", "zsh", "/bin/bash", "/bin/sh", "/bin/zsh", "/usr/bin/bash", "/usr/bin/zsh")
_DURATION = regex(r"\s*(\d{1,9})\s*(ms|s|sec|secs|seconds?|m|min|mins|minutes?)\s*")
_URL = regex(r"https?://[^\s<>\"'`)\]}]+")
_SEARCH_BLOCK = regex(
    r"^(?:<{5,9}|-{5,9}) ?SEARCH>?[ \t]*\r?\n(?P<about>(?::(?:start|end)_line:.*\n)*(?:-{5,9}[ \t]*\r?\n)?)"
    r"(?P<old>(?:.*\n)*?)={5,9}[ \t]*\r?\n(?P<new>(?:.*\n)*?)(?:>{5,9}|\+{5,9}) ?REPLACE>?[ \t]*\r?$"
)
"""A search-and-replace block: `<<<<<<< SEARCH …`."""
_SEARCH_BETWEEN = regex(r"(?m)^={5,9}[ \t\r]*$")
_SEARCH_START = regex(r"(?m)^(?:<{5,9}|-{5,9}) ?SEARCH")
_SUGGEST_TAG = regex(r"<suggest[^>]*>([^<]*)</suggest>")
_MILLISECONDS = 1_000
"""A wait above this number is in milliseconds, not in seconds."""


def our_arguments(tool: str, called: str, arguments: Arguments, parameters: Collection[str], root: str) -> Values:
    """The arguments under our names, with values of another meaning converted. Unknown arguments keep their names.
    `root`: the working folder, where commands run anyway. Raises `ToolError` if none of our tools can do the
    same."""
    names = _OUR_ARGUMENTS.get(tool, {})
    made: Values = {name: value for name, value in arguments.items() if name in parameters}
    if plain_name(called) in EDITORS:
        made.pop("command", None)
        arguments = {name: value for name, value in arguments.items() if name != "command"}
    for name, value in arguments.items():
        key = plain_name(name)
        ours = names.get(key) or next((each for each in parameters if plain_name(each) == key), name)
        is_free = ours in parameters and made.get(ours, value) == value
        made.setdefault(ours if is_free else name, value)
    if tool in _REWRITERS:
        _REWRITERS[tool](made, plain_name(called), root)
    return made


def names_of(tool: str, schema: Mapping[str, object]) -> Iterator[str]:
    """The normalised names of a schema's arguments, and other agents' names for them."""
    properties = schema.get("properties")
    yield from map(plain_name, properties if isinstance(properties, Mapping) else ())
    yield from _OUR_ARGUMENTS.get(tool, {})


def split_unknown_arguments(arguments: Arguments, parameters: Collection[str]) -> tuple[Values, tuple[str, ...]]:
    """The arguments that the tool has, and the names of unknown ones that may have mattered."""
    kept = {name: value for name, value in arguments.items() if name in parameters}
    return kept, tuple(name for name in arguments if name not in parameters and plain_name(name) not in _IDLE)


def _bash(made: Values, called: str, root: str) -> None:
    if called in TYPERS:
        made["command"], job = _take(made, *TYPED_ARGUMENTS), _take(made, "job", *map(plain_name, _JOB.split()))
        made["job"] = "" if job is None else str(job)
    command = made.get("command")
    if isinstance(command, str) and command.lstrip().startswith('["'):
        command = _list_in(command) or command
    if isinstance(command, list) and command and all(isinstance(word, str) for word in command):
        is_script = len(command) == 3 and command[0] in _SHELLS and command[1] in ("-c", "-lc", "-ic", "-lic")
        command = command[2] if is_script else shlex.join(command)
    if command is not None:
        made["command"] = command
    _to_seconds(made, "timeout")
    folder = made.get("workdir")
    if folder is None or (isinstance(folder, str) and folder.rstrip("/") in ("", ".", root.rstrip("/"))):
        made.pop("workdir", None)


def _to_seconds(made: Values, name: str) -> None:
    """Convert a time to seconds, under our name."""
    for theirs in [each for each in made if plain_name(each) in (f"{name}ms", f"{name}milliseconds")]:
        milliseconds = _whole(made.pop(theirs))
        if milliseconds is not None:
            made.setdefault(name, max(-(-milliseconds // 1000), 1))
    for theirs in [each for each in made if plain_name(each) in (f"{name}seconds", f"{name}secs", f"{name}sec")]:
        made.setdefault(name, made.pop(theirs))
    if isinstance(written := made.get(name), str) and (found := _DURATION.fullmatch(written)) is not None:
        factor = 0.001 if found[2] == "ms" else 60 if found[2].startswith("m") else 1
        made[name] = max(int(int(found[1]) * factor), 1)
        return
    seconds = _whole(made.get(name))
    if seconds is not None and seconds > _MILLISECONDS:
        made[name] = -(-seconds // 1000)
    elif seconds is not None and seconds < 1 and name == "timeout":
        made.pop(name)  # no timeout is meant


def _bash_output(made: Values, called: str, root: str) -> None:
    if called in TYPERS:
        _take(made, *TYPED_ARGUMENTS)  # nothing is typed
    _to_seconds(made, "wait")
    if not made.get("job"):
        what = "A job is what `bash` starts with `background`; any other command has its output in its own answer"
        raise ToolError(f"`bash_output` looks at a job: name it as `job`. {what}")


def _read(made: Values, called: str, root: str) -> None:
    if called in LISTERS:
        made.setdefault("path", _take(made, *map(plain_name, _FOLDER.split())) or ".")
    if isinstance(several := made.get("files", made.get("paths")), list) and len(several) > 1 and "path" not in made:
        raise ToolError(f"`read` shows one file a call: call it {len(several)} times, once for each")
    ends = _take(made, "endline", "endlineoneindexedinclusive", "endlineoneindexed", "lineend")
    files = made.get("files")
    if isinstance(files, list) and len(files) == 1 and "path" not in made:
        del made["files"]
        made["path"] = files[0].get("path") if isinstance(files[0], dict) else files[0]
    span = _take(made, "viewrange", "readrange", "linerange", "range", "lines")
    span = (_list_in(span) or re.findall(r"\d+", span)) if isinstance(span, str) else span
    first, last = _whole(made.get("offset")), _whole(ends)
    if isinstance(span, list) and len(span) == 2:
        first, last = _whole(span[0]), _whole(span[1])
        made["offset"] = first or 1
    if first is not None and first < 1:
        made.pop("offset", None)
    if last is not None and last >= (first or 1):
        made["limit"] = last - max(first or 1, 1) + 1
    if (limit := _whole(made.get("limit"))) is not None and limit < 1:
        made.pop("limit")


def _edit(made: Values, called: str, root: str) -> None:
    if "code_edit" in made and "old" not in made:
        raise ToolError("`edit` fills in nothing that is left out: call it with `old`, as the file has it, and `new`")
    blocks = next((name for name in ("diff", "content", "patch") if isinstance(made.get(name), str)), "")
    if blocks and "old" not in made and (found := _as_replacements(str(made[blocks]))):
        del made[blocks]
        made["edits"] = [{"old": old, "new": new} for old, new in found]
    if _take(made, "useregex") in (True, "true"):
        raise ToolError("`edit` takes no patterns: give the text itself as `old`, or use sed in bash")
    key = next((name for name in ("edit", "ReplacementChunks") if name in made), "edits")
    edits = made.get(key)
    edits = _list_in(edits) if isinstance(edits, str) else [edits] if isinstance(edits, dict) else edits
    if not isinstance(edits, list) or not edits:
        return
    del made[key]
    renamed = [_our_edit(each) if isinstance(each, dict) else each for each in edits]
    if len(renamed) > 1 or not isinstance(renamed[0], dict):
        made["edits"] = renamed
    else:
        for name, value in renamed[0].items():
            made.setdefault(name, value)


def _our_edit(edit: Values) -> Values:
    """One of several edits under our names, without unknown fields."""
    names = {**_OUR_ARGUMENTS["edit"], **{name.replace("_", ""): name for name in ("old", "new", "replace_all")}}
    return {names[plain_name(name)]: value for name, value in edit.items() if plain_name(name) in names}


def _edit_notebook(made: Values, called: str, root: str) -> None:
    made.setdefault("action", "replace")
    if made["action"] == "insert":
        made.setdefault("cell", 0)
    if "cell" not in made and (counted := _take(made, "cellnumber", "cellindex", "cellidx")) is not None:
        what = "some count cells from 0: give `cell`, the number that `read` shows, from 1 on"
        raise ToolError(f"which cell {ellipsize(str(counted), 20)} is cannot be told, since {what}")


def _grep(made: Values, called: str, root: str) -> None:
    around = [_whole(_take(made, name)) for name in ("a", "b", "c", "afterlines", "beforelines")]
    if given := [number for number in around if number is not None]:
        made.setdefault("context", min(max(given), 20))
    if (is_exact := _take(made, "casesensitive")) is not None:
        made.setdefault("ignore_case", is_exact in (False, "false", "False"))
    if isinstance(mode := made.get("mode"), str) and plain_name(mode) in ("fileswithmatches", "fileswithmatch"):
        made["mode"] = "files"
    if _whole(made.get("limit")) == 0:  # no limit
        made.pop("limit")
    pattern = made.get("pattern")
    if _take(made, "isregexp") is False and isinstance(pattern, str):
        made["pattern"] = re.escape(pattern)


def _glob(made: Values, called: str, root: str) -> None:
    if called in LISTERS:
        made.setdefault("path", _take(made, *map(plain_name, _FILE.split())) or ".")
        made["pattern"] = "**"


def _write(made: Values, called: str, root: str) -> None:
    how = _take(made, "mode", "append")
    if how in ("append", "a", True, "true"):
        raise ToolError(
            "`write` replaces all of a file: to add to its end call `edit`, with its last line in `old` and `new`"
        )
    if isinstance(content := made.get("content"), dict | list) and str(made.get("path")).endswith(".json"):
        made["content"] = json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _web_fetch(made: Values, called: str, root: str) -> None:
    urls = set(_URL.findall(prompt)) if isinstance(prompt := made.get("prompt"), str) else set()
    if len(urls) == 1 and "url" not in made:
        made["url"] = urls.pop().rstrip(".,;:!?")


def _todo(made: Values, called: str, root: str) -> None:
    items = made.get("items")
    if isinstance(items, str):
        items = _list_in(items) or list(_checklist_items(items)) or items
    if isinstance(items, list):
        made["items"] = [_todo_item(item) for item in items]


def _todo_item(item: object) -> object:
    if isinstance(item, str):
        return {"text": item, "status": "pending"}
    if not isinstance(item, dict):
        return item
    by_name = {plain_name(str(name)): value for name, value in item.items()}
    names = ("text", "content", "step", "title", "task", "description", "name", "activeform")
    text = next((by_name[name] for name in names if by_name.get(name)), None)
    status = by_name.get("status", by_name.get("state"))
    if status is None:
        is_done = by_name.get("done", by_name.get("completed", by_name.get("checked")))
        status = "done" if is_done in (True, "true") else "pending"
    return {"text": text, "status": _STATUSES.get(plain_name(str(status)), status)} if text else item


def _checklist_items(text: str) -> Iterator[Values]:
    """The items of a Markdown checklist: `- [x] done`."""
    for line in text.splitlines():
        if (found := _LIST_ITEM.fullmatch(line)) is not None:
            yield {"text": found["text"].strip(), "status": _MARKS.get(found["mark"], "pending")}


def _ask_user(made: Values, called: str, root: str) -> None:
    questions = made.get("questions")
    if isinstance(questions, list) and questions and isinstance(first := questions[0], dict):
        if len(questions) > 1:
            raise ToolError("`ask_user` puts one question a call: ask the first one, and wait for the answer")
        made.pop("questions")
        made.update({name: first[name] for name in ("question", "options", "several") if name in first})
        if first.get("multiSelect") is True:
            made["several"] = True
    options = made.get("options")
    if isinstance(options, str) and (suggested := _SUGGEST_TAG.findall(options)):
        made["options"] = options = [text.strip() for text in suggested]
    if isinstance(options, list):
        made["options"] = [_label(option) for option in options]


def _label(option: object) -> object:
    return option.get("label") or option.get("text") or option if isinstance(option, dict) else option


_REWRITERS: Mapping[str, Callable[[Values, str, str], None]] = {
    "bash": _bash,
    "bash_output": _bash_output,
    "read": _read,
    "write": _write,
    "edit": _edit,
    "edit_notebook": _edit_notebook,
    "grep": _grep,
    "glob": _glob,
    "todo": _todo,
    "ask_user": _ask_user,
    "web_fetch": _web_fetch,
}
"""Conversions beyond renaming, by tool: each modifies the given arguments."""


def _take(made: Values, *names: str) -> object:
    """Remove all arguments with these names, and return the value of the first."""
    found = [name for name in made if plain_name(name) in names]
    values = [made.pop(name) for name in found]
    return values[0] if values else None


def _whole(value: object) -> int | None:
    """The integer that a value represents, also as a string or as a float without a fraction."""
    if isinstance(value, str):
        try:
            value = float(value)
        except ValueError:
            return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not -1e15 < value < 1e15:
        return None
    return int(value) if value == int(value) else None


def _list_in(text: str) -> Sequence[object] | None:
    try:
        read = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return read if isinstance(read, list) else None


def _as_replacements(text: str) -> list[tuple[str, str]]:
    """The old and new text of each search-and-replace block; empty if the text contains anything else."""
    starts = [found.start() for found in _SEARCH_START.finditer(text)]
    if not starts or text[: starts[0]].strip():
        return []
    made = list[tuple[str, str]]()
    for start, end in pairwise([*starts, len(text)]):
        block = text[start:end].strip("\r\n")
        found = _SEARCH_BLOCK.fullmatch(block)
        if found is None or not found["old"] or len(_SEARCH_BETWEEN.findall(block)) > 1:
            return []
        made.append(
            (found["old"].removesuffix("\n").removesuffix("\r"), found["new"].removesuffix("\n").removesuffix("\r"))
        )
    return made
