"""What each command does on the screen, as a table: one row for every row of `tui.commands`."""

from collections.abc import Awaitable, Callable, Mapping

from tui.actions.context import bring, compact, undo, why
from tui.actions.copy import copy_answer, print_conversation
from tui.actions.desk import CommandContext
from tui.actions.diff import show_session, show_turn
from tui.actions.messages import later
from tui.actions.palette import show_palette
from tui.actions.panels import show_archive, show_context, show_help, show_servers, show_todos
from tui.actions.prompt import edit_message, find_message, remember, run_shell, switch_vim
from tui.actions.sessions import change_mode, choose_model, clear, leave, resume, rewind, show_sessions
from tui.actions.settings import choose_theme, show_settings

ACTIONS: Mapping[str, Callable[[CommandContext, str], Awaitable[None]]] = {
    "help": show_help,
    "compact": compact,
    "undo": undo,
    "context": show_context,
    "archive": show_archive,
    "why": why,
    "bring": bring,
    "mcp": show_servers,
    "resume": resume,
    "sessions": show_sessions,
    "rewind": rewind,
    "model": choose_model,
    "mode": change_mode,
    "clear": clear,
    "shell": run_shell,
    "remember": remember,
    "editor": edit_message,
    "vim": switch_vim,
    "history": find_message,
    "later": later,
    "todos": show_todos,
    "commands": show_palette,
    "theme": choose_theme,
    "settings": show_settings,
    "copy": copy_answer,
    "print": print_conversation,
    "diff": show_turn,
    "files": show_session,
    "quit": leave,
}
"""Each takes what followed the command's name."""
