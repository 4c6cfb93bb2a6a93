"""Other names for commands: aliases from other programs, pointers for missing commands, and synonyms."""

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
"""Command names of other programs, mapped to the equivalent here."""

ELSEWHERE: Mapping[str, str] = {
    "logout": "`ebb key remove PROVIDER` forgets a key; there is no other login",
    "plugin": "`ebb plugin list`, `add` and `remove` do it, outside of a session",
    "plugins": "`ebb plugin list`, `add` and `remove` do it, outside of a session",
    "import": "`ebb import` does it, outside of a session",
    "worktree": "`ebb -w NAME` starts a session in a Git work tree, outside of this one",
    "batch": "`ebb batch FILE` does it, outside of a session",
    "serve": "`ebb serve` does it, outside of a session",
    "acp": "`ebb acp` does it: an editor starts it",
    "completion": "`ebb completion SHELL` does it, outside of a session",
    "demo": "`ebb demo` does it, outside of a session",
    "terminal-setup": "nothing has to be set up: Alt-Enter makes a line, and Ctrl-J does in every terminal",
    "share": "nothing is sent anywhere: `/export FILE` writes the conversation down",
    "bug": "`ebb doctor` tells what may be wrong, and `--debug` writes down what a run did",
    "upgrade": "the program does not change itself: install it again as you installed it",
    "approvals": "Shift-Tab or `/mode NAME` says what runs unasked, `/settings permissions` shows rules for it",
    "security-review": "`/review security` asks for one",
}
"""Where to do what has no slash command here, one sentence each."""

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
"""Synonyms, by command."""

WORDS: Mapping[str, str] = {word: name for name, words in _SYNONYMS.items() for word in words}
"""Commands, by synonym."""


def commands_meaning(word: str) -> tuple[str, ...]:
    """The commands that match any part of a word by synonym, or none."""
    if word in WORDS:
        return (WORDS[word],)
    parts = [part for part in re.split(r"[-_]", word) if part]
    known = {**{alias: target.partition(" ")[0] for alias, target in ALIASES.items()}, **WORDS}
    return tuple(dict.fromkeys(known[part] for part in parts if part in known))[:2]
