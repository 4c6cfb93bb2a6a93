"""Other names for commands: aliases from other programs, advice about missing commands, and synonyms."""

import re
from collections.abc import Mapping

ALIASES: Mapping[str, str] = {
    "exit": "quit",
    "q": "quit",
    "new": "clear",
    "reset": "clear",
    "continue": "resume",
    "config": "settings",
    "preferences": "settings",
    "permissions": "settings permissions",
    "allowed-tools": "settings permissions",
    "statusline": "settings tui.status",
    "cost": "status",
    "usage": "status",
    "stats": "status",
    "tokens": "status",
    "info": "status",
    "models": "model",
    "themes": "theme",
    "colors": "theme",
    "color": "theme",
    "todo": "todos",
    "jobs": "tasks",
    "bashes": "tasks",
    "checkpoints": "undo list",
    "restore": "undo list",
    "branch": "fork",
    "summarize": "compact",
    "keybindings": "help",
    "shortcuts": "help",
    "reasoning": "effort",
    "thoughts": "thinking",
    "login": "key",
    "connect": "key",
    "save": "export",
    "run": "shell",
    "find": "why",
}
"""Command names from other programs, mapped to their equivalents here."""

MISSING_COMMAND_ADVICE: Mapping[str, str] = {
    "logout": "remove a key or sign-in with `ebb key remove PROVIDER`",
    "plugin": "use `ebb plugin list`, `add` or `remove` in your shell",
    "plugins": "use `ebb plugin list`, `add` or `remove` in your shell",
    "import": "use `ebb import` in your shell",
    "worktree": "use `ebb -w NAME` in your shell to start a session in a Git worktree",
    "batch": "use `ebb batch FILE` in your shell",
    "serve": "use `ebb serve` in your shell",
    "acp": "editors start `ebb acp` themselves",
    "completion": "use `ebb completion SHELL` in your shell",
    "demo": "use `ebb demo` in your shell",
    "terminal-setup": "no setup is needed: Alt-Enter starts a new line, and so does Ctrl-J in every terminal",
    "share": "nothing is uploaded; save the conversation with `/export FILE`",
    "bug": "find problems with `ebb doctor`, and see details of a run with `ebb --debug`",
    "upgrade": "update it the way you installed it; it does not update itself",
    "approvals": "set the mode with Shift-Tab or `/mode NAME`, and rules in `/settings permissions`",
    "security-review": "use `/review security`",
}
"""Advice for slash commands that do not exist here, one sentence each."""

_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "quit": ("leave", "bye", "stop", "end", "close", "logoff"),
    "clear": ("restart", "fresh", "start", "empty", "cls"),
    "resume": ("load", "reopen", "last", "previous", "sessions-list", "chat"),
    "rewind": ("back", "rollback", "edit-message", "retry"),
    "undo": ("revert", "discard", "reset-files", "unedit"),
    "status": (
        "money",
        "price",
        "spent",
        "spend",
        "spending",
        "billing",
        "bill",
        "credits",
        "account",
        "whoami",
        "version",
        "limits",
    ),
    "context": ("window", "memory-usage", "ctx", "fill", "prune", "drop", "forget"),
    "compact": ("summary", "shrink", "condense", "squash", "compress"),
    "model": ("llm", "provider", "switch", "gpt", "claude", "engine"),
    "effort": ("think", "think-hard", "ultrathink", "smart", "budget"),
    "mode": ("auto", "yolo", "accept", "ask", "bypass", "autopilot"),
    "diff": ("changes", "changed", "patch", "modified", "delta", "git"),
    "export": ("download", "write", "transcript", "markdown", "md", "dump"),
    "settings": ("options", "configure", "setup", "set", "setting", "prefs"),
    "theme": ("dark", "light", "appearance", "look", "style"),
    "mcp": ("servers", "server", "tools", "integrations"),
    "shell": ("bash", "sh", "terminal", "exec", "cmd", "command"),
    "copy": ("clipboard", "yank"),
    "review": ("audit", "check", "pr", "critique", "lint"),
    "init": ("agent-md", "onboard", "instructions", "bootstrap"),
    "doctor": ("health", "diagnose", "diagnostics", "debug", "troubleshoot"),
    "sandbox": ("boundary", "isolation", "network", "security"),
    "tasks": ("background", "ps", "processes", "kill"),
    "rename": ("title", "name"),
    "remember": ("note", "learn", "memorize", "keep"),
    "memory": ("memories", "notes", "rules", "claude-md"),
    "why": ("search", "grep", "locate", "where"),
    "help": ("keys", "commands-list", "man", "docs", "manual", "h"),
}
"""Synonyms of each command."""

COMMAND_BY_SYNONYM: Mapping[str, str] = {word: name for name, words in _SYNONYMS.items() for word in words}
"""The command for each synonym."""


def commands_for_word(word: str) -> tuple[str, ...]:
    """Find up to two commands with a synonym or alias that matches the word or part of it."""
    if word in COMMAND_BY_SYNONYM:
        return (COMMAND_BY_SYNONYM[word],)
    word_parts = [word_part for word_part in re.split(r"[-_]", word) if word_part]
    commands_by_word = {**{alias: target.partition(" ")[0] for alias, target in ALIASES.items()}, **COMMAND_BY_SYNONYM}
    return tuple(
        dict.fromkeys(commands_by_word[word_part] for word_part in word_parts if word_part in commands_by_word)
    )[:2]
