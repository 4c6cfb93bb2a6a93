"""What each command does where there is no screen, as a table: one row for every row of `tui.commands`."""

from collections.abc import Awaitable, Callable, Mapping

from tui.plain.compaction import compact, undo
from tui.plain.context import bring, why
from tui.plain.copy import print_answer, print_conversation
from tui.plain.desk import LineContext
from tui.plain.diff import show_session, show_turn
from tui.plain.messages import find_message, later, only_on_a_screen, remember, run_shell, write_in_editor
from tui.plain.panels import show_archive, show_context, show_help, show_servers, show_todos
from tui.plain.sessions import change_mode, choose_model, clear, leave, resume, rewind, show_sessions
from tui.plain.settings import choose_theme, show_settings

ACTIONS: Mapping[str, Callable[[LineContext, str], Awaitable[None]]] = {
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
    "theme": choose_theme,
    "settings": show_settings,
    "todos": show_todos,
    "commands": show_help,
    "copy": print_answer,
    "print": print_conversation,
    "shell": run_shell,
    "remember": remember,
    "editor": write_in_editor,
    "vim": only_on_a_screen,
    "history": find_message,
    "later": later,
    "diff": show_turn,
    "files": show_session,
    "quit": leave,
}
"""Each takes what followed the command's name."""
