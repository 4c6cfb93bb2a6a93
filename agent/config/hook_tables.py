"""Hooks as tables say them, in our configuration as in the settings of other programs: which programs run when what
happens. Pure."""

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

from agent.errors import ConfigError
from tools.lazy import dataclass

HookEvent: TypeAlias = Literal[
    "SessionStart",
    "SessionEnd",
    "UserPromptSubmit",
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PreCompact",
    "PostCompact",
    "Stop",
    "SubagentStop",
    "Notification",
]
HOOK_EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)

MOST_HOOKS = 500
"""That one file may declare."""

_MOST_NAMED = 10

_KNOWN = frozenset({"type", "command", "args", "timeout", "async", "statusMessage", "once", "shell"})
"""Keys of one hook. What another key narrows (`if`) would be widened by whoever does not know it."""


@dataclass(frozen=True, slots=True)
class HookCommand:
    """A program that runs when something happens."""

    event: HookEvent
    matcher: str
    """Which tools, or sources, triggers and kinds, it is for, as other programs write it; empty: all."""
    command: str | tuple[str, ...]
    """A line for the shell, or a program with its arguments."""
    timeout: float | None = None
    """Seconds; None where nothing is said."""
    in_background: bool = False
    """Nobody waits for it, nor for what it says."""


def configured_hooks(tables: Mapping[str, object], source: str) -> tuple[HookCommand, ...]:
    """Those of our own configuration. Raises `ConfigError` for what is not understood."""
    found, problems = read_hooks(tables)
    if problems:
        raise ConfigError(f"{source}: {problems[0]}")
    return found


def read_hooks(tables: Mapping[str, object]) -> tuple[tuple[HookCommand, ...], tuple[str, ...]]:
    """The hooks by event, and what is left out, a half sentence each."""
    found: list[HookCommand] = []
    problems: list[str] = []
    unknown = [event[:40] for event in tables if event not in HOOK_EVENTS]
    if unknown:
        named = ", ".join(f"`{event}`" for event in unknown[:_MOST_NAMED])
        problems.append(f"no event for hooks is called {named}; there are {', '.join(HOOK_EVENTS)}")
    for event, groups in tables.items():
        known = next((one for one in HOOK_EVENTS if one == event), None)
        if known is None:
            continue
        if not isinstance(groups, list):
            problems.append(f"`hooks.{event}` must be a list of tables with `matcher` and `hooks`")
        else:
            for group in groups:
                _read_group(known, group, found, problems)
    if len(found) > MOST_HOOKS:
        problems.append(f"there are more than {MOST_HOOKS} hooks; those behind are left out")
    return tuple(found[:MOST_HOOKS]), tuple(dict.fromkeys(problems))


def _read_group(event: HookEvent, group: object, found: list[HookCommand], problems: list[str]) -> None:
    matcher = group.get("matcher") if isinstance(group, dict) else None
    hooks = group.get("hooks") if isinstance(group, dict) else None
    if not isinstance(hooks, list) or not isinstance(matcher, str | None):
        problems.append(
            f'`hooks.{event}` must hold tables such as {{matcher = "Bash", hooks = [{{type = "command", '
            'command = "…"}]}'
        )
        return
    for hook in hooks:
        try:
            found.append(_command(event, matcher or "", hook))
        except ValueError as error:
            problems.append(f"a hook for `{event}` is left out: {error}")


def _command(event: HookEvent, matcher: str, hook: object) -> HookCommand:
    if not isinstance(hook, dict):
        raise ValueError("it is no table")
    kind = hook.get("type", "command")
    if kind != "command":
        raise ValueError(f"its `type` is {str(kind)[:40]!r}, and only `command` is known")
    unknown = sorted(set(map(str, hook)) - _KNOWN)
    if unknown:
        raise ValueError(f"it says `{unknown[0][:40]}`, which is not known")
    timeout = hook.get("timeout")
    is_time = isinstance(timeout, int | float) and not isinstance(timeout, bool) and 0 < timeout < float("inf")
    if timeout is not None and not is_time:
        raise ValueError("its `timeout` must be a number of seconds above 0")
    seconds = float(timeout) if isinstance(timeout, int | float) else None
    return HookCommand(event, matcher, _words(hook), seconds, hook.get("async") is True)


def _words(hook: Mapping[str, object]) -> str | tuple[str, ...]:
    command, arguments = hook.get("command"), hook.get("args", [])
    if isinstance(command, list):
        command, arguments = (command[0] if command else ""), command[1:]
    if not isinstance(command, str) or not command.strip():
        raise ValueError("it has no `command`")
    if not isinstance(arguments, list) or not all(isinstance(word, str) for word in arguments):
        raise ValueError("its arguments must be texts")
    return (command, *arguments) if "args" in hook or isinstance(hook.get("command"), list) else command
