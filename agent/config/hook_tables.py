"""Parses tables that define which hook runs on which event, in our configuration and in other programs' settings."""

import json
import re
import shlex
from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from ebbtide.agent.errors import ConfigError
from ebbtide.tools.lazy import dataclass

HookEvent: TypeAlias = Literal[
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PermissionRequest",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "PostCompact",
    "Stop",
    "SubagentStart",
    "SubagentStop",
    "Notification",
    "after_tool",
]
"""A Claude Code event, or `after_tool` for the programs in `hooks.after_tool`, which have their own input format."""
HOOK_EVENTS: tuple[HookEvent, ...] = tuple(event for event in get_args(HookEvent) if event != "after_tool")
"""Claude Code's events."""

MAX_HOOKS = 500
"""Maximum number of hooks in one file."""

_MAX_LISTED_NAMES = 10

_COMMON_KEYS = frozenset({"type", "timeout", "if", "once", "statusMessage"})
_KEYS_BY_TYPE: Mapping[str, frozenset[str]] = {
    "command": frozenset({"command", "args", "shell", "async", "asyncRewake", "rewakeMessage", "rewakeSummary"}),
    "http": frozenset({"url", "headers", "allowedEnvVars"}),
    "prompt": frozenset({"prompt", "model", "continueOnBlock"}),
    "agent": frozenset({"prompt", "model", "continueOnBlock"}),
    "mcp_tool": frozenset({"server", "tool", "input"}),
}
"""Allowed keys of each type of hook. Unknown keys are rejected: one that is meant to restrict a hook must not be
ignored, or the hook would run more often."""
CALL_EVENTS = ("PreToolUse", "PermissionRequest", "PostToolUse", "PostToolUseFailure")
_CONDITION_PATTERN = re.compile(r"[\w*.-]+(?:\(.*\))?", re.DOTALL)
_LOOPBACK = re.compile(r"https?://(?:localhost|127\.0\.0\.1|\[::1\])(?::\d+)?(?:[/?#]|\Z)")
_VARIABLE = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class HttpAction:
    """A server that receives events and replies with decisions."""

    url: str
    headers: tuple[tuple[str, str], ...] = ()
    variables: tuple[str, ...] = ()
    """Environment variables whose values may appear in the headers."""

    @property
    def is_local(self) -> bool:
        """Whether the server is on this machine and receives no environment variables."""
        return not self.variables and _LOOPBACK.match(self.url) is not None


@dataclass(frozen=True, slots=True)
class ModelAction:
    """A question to a model. The model answers whether it agrees and, if not, why."""

    prompt: str
    model: str = ""
    """The model as the user wrote it; empty for the default."""
    may_read_files: bool = False
    """Whether to ask an agent that is allowed to read files, rather than a model alone."""


@dataclass(frozen=True, slots=True)
class McpToolAction:
    """A tool of an MCP server, whose result is read like a program's output."""

    server: str
    tool: str
    input: str = "{}"
    """The arguments as JSON. `${tool_input.file_path}` is replaced with that field of the event."""


@dataclass(frozen=True, slots=True)
class ClientAction:
    """A function of the client program. It cannot be declared in a file."""

    id: str
    """The id that the client program uses for the function."""
    must_answer: bool = False
    """Whether a missing answer blocks the action."""


HookAction: TypeAlias = str | tuple[str, ...] | HttpAction | ModelAction | McpToolAction | ClientAction
"""A shell command line, a program with arguments, a server address, a question to a model, an MCP tool, or a function
of the client program."""


@dataclass(frozen=True, slots=True)
class HookEntry:
    """An action that runs on an event."""

    event: HookEvent
    matcher: str
    """The tools, sources, triggers or kinds that the hook applies to, in Claude Code's syntax; empty for all. For
    `after_tool`, a permission rule."""
    action: HookAction
    timeout: float | None = None
    """Timeout in seconds; None for the default."""
    condition: str = ""
    """The calls that the hook applies to, as a Claude Code permission rule such as `Bash(git *)`; empty for all."""
    is_once_per_session: bool = False
    """Whether the hook runs only once per session."""
    runs_in_background: bool = False
    """Whether the hook runs in the background. Its output is added to the next message to the model."""
    status: str = ""
    """Text that the user sees while the hook runs."""
    output_preface: str = ""
    """Text placed before the output of a background hook."""

    @property
    def action_text(self) -> str:
        """Description of the action, for display."""
        match self.action:
            case HttpAction(url=url, variables=variables):
                variable_names = ", ".join(f"${variable}" for variable in variables)
                return f"posts to {url}{f' with {variable_names}' if variable_names else ''}"
            case ModelAction(prompt=prompt, model=model, may_read_files=reads_files):
                respondent = "an agent that reads files" if reads_files else "a model"
                return f"asks {respondent}{f' ({model})' if model else ''}: {prompt}"
            case McpToolAction(server=server, tool=tool, input=tool_input):
                return f"calls `{tool}` of the server `{server}`{f' with {tool_input}' if tool_input != '{}' else ''}"
            case ClientAction(id=id):
                return f"asks the client program ({id})"
            case str() as command:
                return command
            case words:
                return shlex.join(words)

    @property
    def summary(self) -> str:
        """Event, filter and action, for display."""
        matcher = "" if self.matcher.strip() in ("", "*") else self.matcher
        filters = ", ".join(filter(None, (matcher, f"if {self.condition}" if self.condition else "")))
        return f"{self.event}{f' ({filters})' if filters else ''}: {self.action_text}"


def parse_configured_hooks(tables: Mapping[str, object], source: str) -> tuple[HookEntry, ...]:
    """Parse the hooks in our own configuration. Raises `ConfigError` if one is invalid."""
    entries, problems = parse_hooks(tables)
    if problems:
        raise ConfigError(f"{source}: {problems[0]}")
    return entries


def parse_hooks(groups_by_event: Mapping[str, object]) -> tuple[tuple[HookEntry, ...], tuple[str, ...]]:
    """Parse the hooks of all events. Return them, and descriptions of the problems."""
    entries: list[HookEntry] = []
    problems: list[str] = []
    unknown = [event[:40] for event in groups_by_event if event not in HOOK_EVENTS]
    if unknown:
        unknown_names = ", ".join(f"`{event}`" for event in unknown[:_MAX_LISTED_NAMES])
        problems.append(f"unknown hook event {unknown_names}; known events are {', '.join(HOOK_EVENTS)}")
    for event, groups in groups_by_event.items():
        known_event = next((hook_event for hook_event in HOOK_EVENTS if hook_event == event), None)
        if known_event is None:
            continue
        if not isinstance(groups, list):
            problems.append(f"`hooks.{event}` must be a list of tables with `matcher` and `hooks`")
        else:
            for group in groups:
                _read_group(known_event, group, entries, problems)
    if len(entries) > MAX_HOOKS:
        problems.append(f"there are more than {MAX_HOOKS} hooks; only the first {MAX_HOOKS} are used")
    return tuple(entries[:MAX_HOOKS]), tuple(dict.fromkeys(problems))


def _read_group(event: HookEvent, group: object, entries: list[HookEntry], problems: list[str]) -> None:
    matcher = group.get("matcher") if isinstance(group, dict) else None
    hooks = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(hooks, list) or not isinstance(matcher, str | None):
        problems.append(
            f'`hooks.{event}` must contain tables such as {{matcher = "Bash", hooks = [{{type = "command", '
            'command = "…"}]}'
        )
        return
    for hook in hooks:
        try:
            entries.append(_parse_hook_entry(event, matcher or "", hook))
        except ValueError as error:
            problems.append(f"a hook for `{event}` is skipped: {error}")


def _parse_hook_entry(event: HookEvent, matcher: str, hook: object) -> HookEntry:
    if not isinstance(hook, dict):
        raise ValueError("it is not a table")
    action_type = hook.get("type", "command")
    allowed_keys = _KEYS_BY_TYPE.get(action_type) if isinstance(action_type, str) else None
    if allowed_keys is None:
        raise ValueError(
            f"its `type` is {str(action_type)[:40]!r}; "
            f"the known types are {', '.join(f'`{hook_type}`' for hook_type in _KEYS_BY_TYPE)}"
        )
    unknown = sorted(set(map(str, hook)) - allowed_keys - _COMMON_KEYS)
    if unknown:
        raise ValueError(f"unknown key `{unknown[0][:40]}`")
    timeout = hook.get("timeout")
    is_valid_timeout = isinstance(timeout, int | float) and not isinstance(timeout, bool) and 0 < timeout < float("inf")
    if timeout is not None and not is_valid_timeout:
        raise ValueError("its `timeout` must be a number of seconds above 0")
    return HookEntry(
        event,
        matcher,
        _hook_action(str(action_type), hook),
        float(timeout) if isinstance(timeout, int | float) else None,
        _parse_condition(event, hook.get("if")),
        is_once_per_session=_flag_value(hook, "once"),
        runs_in_background=_flag_value(hook, "async") or _flag_value(hook, "asyncRewake"),
        status=_text_value(hook, "statusMessage"),
        output_preface=_text_value(hook, "rewakeMessage"),
    )


def _hook_action(action_type: str, hook: Mapping[str, object]) -> HookAction:
    match action_type:
        case "http":
            return _http_action(hook)
        case "prompt" | "agent":
            if not (prompt := _text_value(hook, "prompt")).strip():
                raise ValueError("it has no `prompt`")
            return ModelAction(prompt, _text_value(hook, "model"), may_read_files=action_type == "agent")
        case "mcp_tool":
            tool_input = hook.get("input", {})
            if not (_text_value(hook, "server") and _text_value(hook, "tool")):
                raise ValueError("it needs `server` and `tool`")
            if not isinstance(tool_input, dict):
                raise ValueError("its `input` must be a table")
            return McpToolAction(_text_value(hook, "server"), _text_value(hook, "tool"), json.dumps(tool_input))
        case _:
            return _command_action(hook)


def _flag_value(hook: Mapping[str, object], key: str) -> bool:
    value = hook.get(key, False)
    if not isinstance(value, bool):
        raise ValueError(f"its `{key}` must be true or false")
    return value


def _text_value(hook: Mapping[str, object], key: str) -> str:
    value = hook.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"its `{key}` must be a string")
    return value


def _parse_condition(event: HookEvent, condition: object) -> str:
    if condition is None:
        return ""
    if not isinstance(condition, str) or not _CONDITION_PATTERN.fullmatch(condition.strip()):
        raise ValueError("its `if` must be a rule such as `Bash(git *)`")
    if event not in CALL_EVENTS:
        raise ValueError("`if` applies only to tool calls")
    return condition.strip()


def _command_action(hook: Mapping[str, object]) -> str | tuple[str, ...]:
    command, arguments, shell = hook.get("command"), hook.get("args", []), hook.get("shell", "bash")
    if isinstance(command, list):
        command, arguments = (command[0] if command else ""), command[1:]
    if not isinstance(command, str) or not command.strip():
        raise ValueError("it has no `command`")
    if not isinstance(arguments, list) or not all(isinstance(argument, str) for argument in arguments):
        raise ValueError("its arguments must be strings")
    if shell not in ("bash", "powershell"):
        raise ValueError("its `shell` must be `bash` or `powershell`")
    if "args" in hook or isinstance(hook.get("command"), list):
        return (command, *arguments)
    return command if shell == "bash" else ("pwsh", "-NoProfile", "-Command", command)


def _http_action(hook: Mapping[str, object]) -> HttpAction:
    url, headers, variables = hook.get("url"), hook.get("headers", {}), hook.get("allowedEnvVars", [])
    if not isinstance(url, str) or not re.fullmatch(r"https?://[^\s/]+\S*", url):
        raise ValueError("its `url` must begin with `http://` or `https://`")
    if not isinstance(headers, dict) or not all(_is_header(*header) for header in headers.items()):
        raise ValueError("its `headers` must be strings of one line")
    if not isinstance(variables, list) or not all(
        isinstance(variable, str) and _VARIABLE.fullmatch(variable) for variable in variables
    ):
        raise ValueError("its `allowedEnvVars` must be variable names")
    return HttpAction(url, tuple(headers.items()), tuple(variables))


def _is_header(name: object, value: object) -> bool:
    are_strings = isinstance(name, str) and isinstance(value, str)
    return are_strings and bool(re.fullmatch(r"[\w-]+", str(name), re.ASCII)) and str(value).isprintable()
