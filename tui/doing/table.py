"""What each command does on the screen, as a table: one row for every row of `tui.commands`."""

from collections.abc import Awaitable, Callable, Mapping

from tui.doing.changes import show_session, show_turn
from tui.doing.desk import Desk
from tui.doing.looking import show_archive, show_context, show_help, show_servers, show_todos
from tui.doing.palette import show_palette
from tui.doing.room import bring, compact, undo, why
from tui.doing.saying import later
from tui.doing.sessions import change_mode, choose_model, clear, leave, resume, rewind, show_sessions
from tui.doing.settings import choose_theme, show_settings
from tui.doing.taking import copy_answer, print_conversation
from tui.doing.writing import edit_message, find_message, remember, run_shell, switch_vim

DOING: Mapping[str, Callable[[Desk, str], Awaitable[None]]] = {
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
