"""Commands that list all keys and commands: `/help` and the command palette."""

from collections.abc import Sequence
from functools import partial
from time import time

from rich.cells import cell_len, set_cell_size

from ebbtide.agent.config.options import OPTIONS
from ebbtide.agent.records.session_lookup import SessionInfo
from ebbtide.tui.command_topics import EVERYDAY_TASKS, OTHER_TOPIC, TOPICS, topic_of_command, topic_of_key
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.commands.themes import OFFERED_THEMES
from ebbtide.tui.keys import KeyBinding
from ebbtide.tui.slash_commands import COMMANDS, Invocation, SlashCommand, parse_command
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.numbers import format_age
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, parse_inline_code
from ebbtide.tui.view.panel import Panel, PanelAction, PanelRow, heading_row

_USAGE_WIDTH = 32


def build_help_panel(keys: Sequence[KeyBinding], commands: Sequence[SlashCommand]) -> Panel:
    """Build a searchable panel of all keys and commands."""
    return Panel(
        "help",
        ((("Help", "strong"), ("  keys and commands", "dim")),),
        help_rows(keys, commands),
        "Left, Right tab   Up, Down   Enter put into the prompt   Esc close",
        empty_message="Nothing matches.",
        actions=(PanelAction(("enter",), "write", is_available=lambda row: row.value.startswith("/")),),
        is_printed_in_full=True,
        has_tabs=True,
    )


def help_rows(keys: Sequence[KeyBinding], commands: Sequence[SlashCommand]) -> tuple[PanelRow, ...]:
    """Build rows for what people do most, then for every key and command by topic."""
    rows_by_topic: dict[str, list[PanelRow]] = {topic: [] for topic in (*(topic for topic, _ in TOPICS), OTHER_TOPIC)}
    for key in keys:
        rows_by_topic[topic_of_key(key.label)].append(_help_row(key.label, key.help, key_row_value(key), ()))
    for command in commands:
        details: tuple[Line, ...] = () if command.can_run_during_turn else ((("waits until the turn is over", "dim"),),)
        rows_by_topic[topic_of_command(command.name)].append(
            _help_row(command.usage, command.help, f"/{command.name}", details)
        )
    tasks = (_help_row(name, text, name, ()) for name, text in EVERYDAY_TASKS)
    entries: list[PanelRow] = [heading_row("Everyday"), *tasks]
    for topic, rows in rows_by_topic.items():
        if rows:
            entries += [heading_row(topic), *rows]
    return tuple(entries)


def key_row_value(key: KeyBinding) -> str:
    """Get the row value of a key: `action:NAME`, or empty if the prompt handles the key."""
    return f"action:{key.action}" if key.action else ""


def _help_row(name: str, description: str, value: str, details: tuple[Line, ...]) -> PanelRow:
    full_line: Line = ((f"{name}  ", "accent"), *parse_inline_code(description, "text"))
    return PanelRow(
        value or name,
        partial(_help_line, name, description),
        search_text=f"{name} {description}",
        details=(full_line, *details),
    )


def _help_line(name: str, description: str, width: int) -> Line:
    """Format one line of the list. In a narrow list, the description gets more than half the width."""
    name_width = min(_USAGE_WIDTH, width * 3 // 7)
    return (("  ", "text"), (f"{fit_width(name, name_width - 1)} ", "accent"), *parse_inline_code(description, "text"))


MAX_PALETTE_SESSIONS = 20
_NAME_WIDTH = 20
"""Minimum width, in cells, of a name before its description."""


def build_palette_panel(rows: Sequence[PanelRow]) -> Panel:
    """Build the command palette. Choosing a row returns a command line or `action:NAME`."""
    title: Line = (("What would you like to do?", "strong"),)
    keys = "Up, Down   Enter select   Esc cancel"
    return Panel("commands", (title,), tuple(rows), keys, empty_message="No match.", waits_for_main_screen=True)


def build_palette_rows(
    commands: Sequence[SlashCommand],
    keys: Sequence[KeyBinding],
    sessions: Sequence[SessionInfo],
    models: Sequence[str],
    now: float,
) -> tuple[PanelRow, ...]:
    """Build rows for commands, keys, sessions, models, themes and settings. `now` is in Unix seconds."""
    command_by_action = {f"command('{command.name}')": command.name for command in commands}
    key_labels = {command_by_action[key.action]: key.label for key in keys if key.action in command_by_action}
    rows = [heading_row("Commands")]
    rows += [
        _palette_row(f"/{command.name}", command.usage, command.help, key_labels.get(command.name, ""))
        for command in commands
    ]
    rows.append(heading_row("Keys"))
    rows += [
        _palette_row(key_row_value(key), key.help, "", key.label)
        for key in keys
        if key.action and key.action not in command_by_action
    ]
    recent_sessions = sessions[:MAX_PALETTE_SESSIONS]
    if recent_sessions:
        rows.append(heading_row("Sessions"))
        rows += [
            _palette_row(
                f"/resume {info.id}", info.title or "(no messages yet)", format_age(now - info.updated_at), "session"
            )
            for info in recent_sessions
        ]
    if models:
        rows.append(heading_row("Models"))
        rows += [_palette_row(f"/model {model}", model, "", "model") for model in models]
    rows.append(heading_row("Themes"))
    rows += [_palette_row(f"/theme {theme.name}", theme.name, theme.help, "theme") for theme in OFFERED_THEMES]
    rows.append(heading_row("Settings"))
    rows += [_palette_row(f"/settings {option.key}", option.key, option.description, "setting") for option in OPTIONS]
    return tuple(rows)


def _palette_row(value: str, name: str, description: str, right_label: str) -> PanelRow:
    name, description = sanitise_line(name), sanitise_line(description)
    line: Line = (
        (
            (f"  {set_cell_size(name, max(_NAME_WIDTH, cell_len(name)))}  ", "text"),
            *parse_inline_code(description, "dim"),
        )
        if description
        else ((f"  {name}", "text"),)
    )
    return PanelRow(
        value,
        line,
        search_text=f"{name} {description} {right_label}",
        right_text=(right_label, "accent") if right_label else None,
    )


async def show_help(context: CommandContext, _: str) -> None:
    if choice := await context.show(build_help_panel(context.keys, COMMANDS)):
        context.set_prompt_text(f"{choice.value} ")


async def show_palette(context: CommandContext, _: str) -> None:
    """Show the command palette and run the chosen entry. A command that needs an argument is put into the prompt
    instead."""
    sessions = context.controller.sessions
    entries = build_palette_rows(
        COMMANDS, context.keys, await sessions.recent_sessions(), sessions.available_models(), time()
    )
    choice = await context.show(build_palette_panel(entries))
    if choice is None:
        return
    kind, _, action = choice.value.partition(":")
    invocation = parse_command(choice.value)
    if kind == "action":
        await context.run_action(action)
    elif isinstance(invocation, Invocation):
        if invocation.command.argument_hint.isupper() and not invocation.argument:
            context.set_prompt_text(f"{choice.value} ")
        else:
            context.invoke(invocation)
