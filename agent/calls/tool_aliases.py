"""Maps other agents' tool names to ours: models keep calling the tools they were trained with. Pure."""

import re
from collections.abc import Collection, Mapping

from ebbtide.tools.base import Arguments, ToolError
from ebbtide.tools.lazy import regex

_TOOLS: Mapping[str, str] = {
    "bash": "shell run_shell_command execute_command execute_bash run_terminal_cmd run_terminal_command run_command "
    "run_in_terminal shell_command exec_command local_shell container.exec developer__shell terminal system.run",
    "read": "read_file view view_file open_file cat read_text_file show_file notebook_read view_image LS "
    "list_directory list_dir list_files list repo_browser.open_file repo_browser.print_tree",
    "write": "write_file write_to_file create_file create save_file write_text_file",
    "edit": "edit_file replace search_replace str_replace str_replace_file replace_in_file replace_string_in_file "
    "multi_edit apply_diff search_and_replace replace_file_content multi_replace_file_content",
    "apply_patch": "patch",
    "grep": "grep_search search_file_content search_files search_in_files grep_files ripgrep rg "
    "repo_browser.search",
    "glob": "file_search find_files find_by_name",
    "todo": "todo_write write_todos update_plan manage_todo_list update_todo_list set_todo_list",
    "ask_user": "ask_user_question ask_followup_question ask_question request_user_input",
    "bash_output": "get_terminal_output task_output shell_output command_status",
    "bash_kill": "kill_shell kill_bash kill_terminal kill_command task_stop",
    "task": "agent spawn_agent delegate",
    "web_fetch": "fetch fetch_url fetch_webpage read_web_page",
    "web_search": "google_web_search search_web",
    "edit_notebook": "notebook_edit edit_notebook_file",
    "submit_plan": "exit_plan_mode present_plan propose_plan plan_mode_respond",
}  # fmt: skip
"""Other agents' names for tools that do the same as ours; case and separators are ignored."""

LISTERS = ("ls", "list", "listdirectory", "listdir", "listfiles", "repobrowserprinttree")

EDITORS = ("strreplaceeditor", "strreplacebasededittool", "texteditor", "developertexteditor", "fileeditor")
"""Tools whose `command` argument selects the action."""

_COMMANDS = {"view": "read", "create": "write", "write": "write", "str_replace": "edit"}

_ENDS = ("attemptcompletion", "finish", "taskcomplete", "taskdone", "complete", "finalanswer", "done")
"""Other agents' tools that end a turn."""

TYPERS = ("writestdin", "sendinput", "writetoterminal", "sendkeys", "sendcommandinput", "terminalinput")
"""Tools that type into a running program."""

TYPED_ARGUMENTS = ("chars", "text", "input", "keys", "data", "command")
"""Their arguments with the typed text."""

_SEARCHERS = ("codebasesearch", "semanticsearch", "searchcodebase", "codebaseretrieval", "semanticcodesearch")
"""Tools that search by meaning."""
_SMALL_WORDS = regex(
    r"(?i)(?:the|and|for|are|how|where|what|which|when|does|with|that|this|from|into|used?|code|files?)\Z"
)

PREFIXES = ("functions.", "default_api.", "tools.", "tool.", "function.")
_TRAIL = regex(r"<\|.*|:\d+\Z", re.DOTALL)
"""What models append to a name: markers of their own format, and call numbers."""


def plain_name(name: str) -> str:
    """A name without case and separators."""
    return re.sub(r"[^a-z0-9]", "", name[:200].casefold())


def by_name(table: Mapping[str, str]) -> Mapping[str, str]:
    return {plain_name(theirs): ours for ours, names in table.items() for theirs in names.split()}


_OURS = by_name(_TOOLS)


def by_their_name(name: str) -> str:
    """Our tool for another agent's name; the name itself if there is none."""
    return _OURS.get(plain_name(name), name)


def our_tool(name: str, arguments: Arguments, known: Collection[str]) -> str | None:
    """Our tool for a name that none of the `known` tools has; None if there is none. Raises `ToolError` if no tool
    of ours does the same."""
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    name = _TRAIL.sub("", name)
    if name in known:
        return name
    wanted = plain_name(name)
    if wanted in ("multitooluseparallel", "batch") and any(isinstance(each, list) for each in arguments.values()):
        raise ToolError("no tool calls others: make these calls themselves, several in one reply")
    if wanted in _ENDS:
        raise ToolError("no tool ends the work: write your answer as text, without a call")
    if wanted in EDITORS:
        return _by_command(arguments, known)
    if wanted in TYPERS:
        types = any(
            isinstance(value, str) and value for name, value in arguments.items() if plain_name(name) in TYPED_ARGUMENTS
        )
        typed = "bash" if types else "bash_output"
        return typed if typed in known else None
    if wanted in _SEARCHERS and "grep" in known:
        raise ToolError(f"no tool searches by meaning: call `grep` with {_pattern_of(arguments)}, a name in the code")
    if wanted == "editfile" and _is_whole(arguments) and "write" in known:
        return "write"
    if wanted in LISTERS and arguments.get("recursive") in (True, "true") and "glob" in known:
        return "glob"
    same = [ours for ours in known if plain_name(ours) == wanted]
    ours = same[0] if len(same) == 1 else _OURS.get(wanted)
    return ours if ours in known else None


def _is_whole(arguments: Arguments) -> bool:
    """Whether a call of an editing tool contains a whole file."""
    plain = {plain_name(name): value for name, value in arguments.items()}
    return plain.get("mode") in ("create", "overwrite") and isinstance(plain.get("content"), str)


def _pattern_of(arguments: Arguments) -> str:
    """The words of a question that may occur in the code, as a pattern."""
    texts = [value[:500] for value in arguments.values() if isinstance(value, str)]
    words = re.findall(r"[A-Za-z_]\w{2,}", max(texts, key=len, default=""))
    meant = list(dict.fromkeys(word for word in words if not _SMALL_WORDS.match(word)))
    return f'pattern="{"|".join(meant[:4])}"' if meant else "a `pattern`"


def _by_command(arguments: Arguments, known: Collection[str]) -> str | None:
    command = arguments.get("command")
    if command == "insert":
        raise ToolError("to insert a text, call `edit` with the line before it as `old`, and with both as `new`")
    if command == "undo_edit":
        raise ToolError("nothing takes an edit back: call `edit` with `old` and `new` the other way round")
    ours = _COMMANDS.get(command, "") if isinstance(command, str) else ""
    return ours if ours in known else None
