"""The functions of the slash commands."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias, cast

from ebbtide.tui.commands.agents import show_agents
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.commands.context import (
    bring_back,
    compact,
    show_archive,
    show_context,
    show_occurrences,
    show_plan,
    show_todos,
)
from ebbtide.tui.commands.extensions import show_hooks, show_skills, show_trust
from ebbtide.tui.commands.folders import add_folder, show_sandbox
from ebbtide.tui.commands.help import show_help, show_palette
from ebbtide.tui.commands.memory import remember, show_memory
from ebbtide.tui.commands.messages import (
    copy_answer,
    print_conversation,
    propose_instructions,
    review,
    run_shell,
    send_later,
)
from ebbtide.tui.commands.models import choose_model
from ebbtide.tui.commands.provider_keys import replace_key
from ebbtide.tui.commands.reports import show_status, show_tasks
from ebbtide.tui.commands.sessions import change_mode, fork, rename, resume, resume_session, rewind, start_new_session
from ebbtide.tui.commands.settings import choose_effort, choose_thoughts, show_settings, toggle_side_panel
from ebbtide.tui.commands.themes import choose_theme
from ebbtide.tui.commands.undo import redo, show_session_changes, show_turn_changes, undo
from ebbtide.tui.integration_registry import SLASH_COMMANDS, SlashCommandRow, load_integration
from ebbtide.tui.slash_commands import COMMANDS

CommandAction: TypeAlias = Callable[[CommandContext, str], Awaitable[None]]

_BUILT_IN_ACTIONS: Mapping[str, CommandAction] = {
    "help": show_help,
    "compact": compact,
    "undo": undo,
    "redo": redo,
    "context": show_context,
    "archive": show_archive,
    "why": show_occurrences,
    "bring": bring_back,
    "skills": show_skills,
    "hooks": show_hooks,
    "trust": show_trust,
    "resume": resume,
    "sessions": resume_session,
    "rewind": rewind,
    "model": choose_model,
    "key": replace_key,
    "effort": choose_effort,
    "thinking": choose_thoughts,
    "mode": change_mode,
    "add-dir": add_folder,
    "sandbox": show_sandbox,
    "clear": start_new_session,
    "rename": rename,
    "fork": fork,
    "status": show_status,
    "tasks": show_tasks,
    "agents": show_agents,
    "review": review,
    "init": propose_instructions,
    "shell": run_shell,
    "remember": remember,
    "memory": show_memory,
    "editor": lambda context, text: context.edit_message(text),
    "vim": lambda context, _: context.toggle_vim_keys(),
    "history": lambda context, _: context.search_history(),
    "later": send_later,
    "todos": show_todos,
    "plan": show_plan,
    "commands": show_palette,
    "panel": toggle_side_panel,
    "theme": choose_theme,
    "settings": show_settings,
    "copy": copy_answer,
    "print": print_conversation,
    "diff": show_turn_changes,
    "files": show_session_changes,
    "quit": lambda context, _: context.exit(),
}
"""The functions of built-in commands. Each takes the context and the command's argument. Commands that differ between
front ends are methods of the context."""


def _integration_action(row: SlashCommandRow) -> CommandAction:
    return lambda context, text: cast(CommandAction, load_integration(row.target))(context, text)


ACTIONS: Mapping[str, CommandAction] = {
    command.name: _BUILT_IN_ACTIONS.get(command.name) or _integration_action(SLASH_COMMANDS[command.name])
    for command in COMMANDS
}
