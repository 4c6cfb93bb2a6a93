"""The function of each slash command: one row for every row of `ebbtide.tui.commands`."""

from collections.abc import Awaitable, Callable, Mapping

from ebbtide.tui.actions.agents import show_agents
from ebbtide.tui.actions.command_context import CommandContext
from ebbtide.tui.actions.context import bring, compact, show_archive, show_context, show_plan, show_todos, why
from ebbtide.tui.actions.diff import show_session, show_turn
from ebbtide.tui.actions.export import export
from ebbtide.tui.actions.extensions import show_hooks, show_skills, show_trust
from ebbtide.tui.actions.folders import add_folder, show_sandbox
from ebbtide.tui.actions.memory import remember, show_memory
from ebbtide.tui.actions.messages import (
    copy_answer,
    later,
    print_conversation,
    propose_instructions,
    review,
    run_shell,
)
from ebbtide.tui.actions.provider_keys import replace_key
from ebbtide.tui.actions.reports import examine, show_status, show_tasks
from ebbtide.tui.actions.servers import show_servers
from ebbtide.tui.actions.sessions import change_mode, choose_model, clear, fork, rename, resume, rewind, show_sessions
from ebbtide.tui.actions.settings import choose_effort, choose_theme, choose_thoughts, show_settings, switch_panel
from ebbtide.tui.actions.undo import redo, undo

ACTIONS: Mapping[str, Callable[[CommandContext, str], Awaitable[None]]] = {
    "help": lambda context, _: context.show_help(),
    "compact": compact,
    "undo": undo,
    "redo": redo,
    "context": show_context,
    "archive": show_archive,
    "why": why,
    "bring": bring,
    "mcp": show_servers,
    "skills": show_skills,
    "hooks": show_hooks,
    "trust": show_trust,
    "resume": resume,
    "sessions": show_sessions,
    "rewind": rewind,
    "model": choose_model,
    "key": replace_key,
    "effort": choose_effort,
    "thinking": choose_thoughts,
    "mode": change_mode,
    "add-dir": add_folder,
    "sandbox": show_sandbox,
    "clear": clear,
    "rename": rename,
    "fork": fork,
    "export": export,
    "status": show_status,
    "tasks": show_tasks,
    "agents": show_agents,
    "review": review,
    "init": propose_instructions,
    "shell": run_shell,
    "remember": remember,
    "memory": show_memory,
    "editor": lambda context, text: context.edit_message(text),
    "vim": lambda context, _: context.switch_vim(),
    "history": lambda context, _: context.find_message(),
    "later": later,
    "todos": show_todos,
    "plan": show_plan,
    "commands": lambda context, _: context.show_palette(),
    "panel": switch_panel,
    "theme": choose_theme,
    "settings": show_settings,
    "doctor": examine,
    "copy": copy_answer,
    "print": print_conversation,
    "diff": show_turn,
    "files": show_session,
    "quit": lambda context, _: context.leave(),
}
"""Each takes the argument of the command. Commands that differ by front end are methods of the context."""
