"""The table and parser of slash commands. The commands themselves are in `tui/commands`."""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tui.command_names import ALIASES, MISSING_COMMAND_ADVICE, commands_for_word
from ebbtide.tui.integration_registry import SLASH_COMMANDS

SHELL_PREFIX, NOTE_PREFIX = "!", "# "
"""Prefixes of shell commands and notes."""

PromptMode: TypeAlias = Literal["message", "shell", "memory"]


@dataclass(frozen=True, slots=True)
class SlashCommand:
    name: str
    argument_hint: str
    """The arguments as shown in help and completion."""
    help: str
    can_run_during_turn: bool = False
    """Whether the command is allowed to run during a turn."""
    needs_session: bool = False
    """Whether the command acts on a session. If a session is being opened, the command waits for it."""

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.argument_hint}".rstrip()


_BUILT_IN: tuple[SlashCommand, ...] = (
    SlashCommand("help", "", "show keys and commands", can_run_during_turn=True),
    SlashCommand("model", "[name]", "switch to another model"),
    SlashCommand("resume", "[id]", "resume an earlier session; without an id: find, rename, fork, delete"),
    SlashCommand("clear", "", "start a new session"),
    SlashCommand(
        "context",
        "[ACT REF]",
        "show what fills the context window, and free space",
        can_run_during_turn=True,
        needs_session=True,
    ),
    SlashCommand("compact", "[focus]", "summarise to free space (previews first)"),
    SlashCommand("undo", "[list]", "revert the last turn's file changes (previews first); `list`: pick a turn"),
    SlashCommand(
        "diff",
        "[session]",
        "show what the last turn changed, or the session",
        can_run_during_turn=True,
        needs_session=True,
    ),
    SlashCommand("rewind", "", "go back to one of your messages: fork the conversation, restore files, or both"),
    SlashCommand("review", "[what]", "have the model review your changes, or what you name"),
    SlashCommand(
        "mode",
        "[name]",
        "set the mode: ask, accept-edits, plan or auto; without a name, switch to the next",
        can_run_during_turn=True,
        needs_session=True,
    ),
    SlashCommand("settings", "[words]", "view and change settings", can_run_during_turn=True),
    SlashCommand("redo", "", "reapply what was reverted last"),
    SlashCommand("archive", "", "browse stored outputs and messages"),
    SlashCommand("why", "TEXT", "find out where a text went"),
    SlashCommand("bring", "REF", "bring something back into context"),
    SlashCommand("skills", "", "list skills: instructions that the model can look up"),
    SlashCommand("hooks", "", "list hooks: your programs, run on events", can_run_during_turn=True, needs_session=True),
    SlashCommand(
        "trust", "", "review and approve what this project ships", can_run_during_turn=True, needs_session=True
    ),
    SlashCommand("sessions", "", "list sessions (same as `/resume`)"),
    SlashCommand("key", "[provider]", "replace a provider's API key"),
    SlashCommand("effort", "[level]", "set the reasoning effort: low, medium, high, … (if supported)"),
    SlashCommand(
        "thinking",
        "[how]",
        "show thinking as `line`, `open` or `hidden`; without an argument, switch to the next",
        can_run_during_turn=True,
    ),
    SlashCommand(
        "add-dir",
        "[FOLDER]",
        "also allow work in FOLDER; without FOLDER, list and remove",
        can_run_during_turn=True,
        needs_session=True,
    ),
    SlashCommand(
        "sandbox",
        "",
        "show the sandbox: what commands can write, read and reach",
        can_run_during_turn=True,
        needs_session=True,
    ),
    SlashCommand("rename", "TITLE", "rename the session", can_run_during_turn=True, needs_session=True),
    SlashCommand("fork", "", "continue in a copy of this session"),
    SlashCommand(
        "status",
        "",
        "show model, cost, tokens, window and changed files",
        can_run_during_turn=True,
        needs_session=True,
    ),
    SlashCommand(
        "tasks",
        "[forward]",
        "show background commands; `forward`: reach the ports they listen on",
        can_run_during_turn=True,
        needs_session=True,
    ),
    SlashCommand(
        "agents",
        "[stop NAME]",
        "show sub-agents, or stop one",
        can_run_during_turn=True,
        needs_session=True,
    ),
    SlashCommand("init", "", "have the model propose an AGENT.md for this project"),
    SlashCommand("shell", "COMMAND", "run a command and show it to the model (same as `!COMMAND`)"),
    SlashCommand("remember", "TEXT", "save a note for later sessions (same as `# TEXT`)"),
    SlashCommand("memory", "", "show instructions and notes; open or delete them"),
    SlashCommand("editor", "", "write the message in your editor", can_run_during_turn=True),
    SlashCommand("vim", "", "turn vi keys in the prompt on or off", can_run_during_turn=True),
    SlashCommand("history", "", "search your earlier messages", can_run_during_turn=True),
    SlashCommand("later", "TEXT", "send a message after the turn, not at its next step", can_run_during_turn=True),
    SlashCommand("todos", "", "show the model's to-do list", can_run_during_turn=True),
    SlashCommand(
        "plan", "", "show the last submitted plan and your decision", can_run_during_turn=True, needs_session=True
    ),
    SlashCommand("commands", "", "open the command palette", can_run_during_turn=True),
    SlashCommand("panel", "", "show or hide the side panel (wide screens only)", can_run_during_turn=True),
    SlashCommand("theme", "[name]", "choose a colour theme", can_run_during_turn=True),
    SlashCommand("copy", "", "copy the last answer", can_run_during_turn=True),
    SlashCommand("print", "", "print the conversation to the terminal's scrollback", can_run_during_turn=True),
    SlashCommand("files", "", "list the files that this session changed", can_run_during_turn=True, needs_session=True),
    SlashCommand("quit", "", "quit Ebbtide", can_run_during_turn=True),
)
"""The commands in the order in which the prompt offers them: those that people use most, then the others by subject."""


def _all_commands() -> Iterator[SlashCommand]:
    for command in _BUILT_IN:
        yield command
        for name, row in SLASH_COMMANDS.items():
            if row.preceding_command == command.name:
                yield SlashCommand(
                    name, row.argument_hint, row.description, can_run_during_turn=True, needs_session=row.needs_session
                )


COMMANDS: tuple[SlashCommand, ...] = (*_all_commands(),)


@dataclass(frozen=True, slots=True)
class Invocation:
    command: SlashCommand
    argument: str

    @property
    def source_text(self) -> str:
        """Get what the user would type to run this command."""
        match self.command.name:
            case "shell":
                return f"{SHELL_PREFIX}{self.argument}"
            case "remember":
                return f"{NOTE_PREFIX}{self.argument}"
            case name:
                return f"/{name} {self.argument}".rstrip()


@dataclass(frozen=True, slots=True)
class UnknownCommand:
    name: str
    suggestions: tuple[str, ...]

    alternative: str = ""
    """What to use instead; empty if nothing is known."""

    @property
    def message(self) -> str:
        if self.alternative:
            return f"no command `/{self.name}`: {self.alternative}"
        suggestions_text = " or ".join(f"`/{name}`" for name in self.suggestions)
        return f"unknown command `/{self.name}`; " + (
            f"did you mean {suggestions_text}?" if suggestions_text else "see `/help`"
        )


MCP_PROMPT_PREFIX = "mcp__"
"""Prefix of commands for MCP prompts."""

_COMMANDS_BY_NAME = {command.name: command for command in COMMANDS}

_CUSTOM_COMMAND = regex(r"/(\w[\w.:-]*)(?:\s.*)?", re.DOTALL)
_COMMAND_LINE = regex(r"/([a-zA-Z][\w-]*)(?:\s+(.*))?", re.DOTALL)


def detect_prompt_mode(text: str) -> PromptMode:
    """Detect what kind of message this is from its first characters. A Markdown heading with text below it is an
    ordinary message."""
    if text.startswith(SHELL_PREFIX):
        return "shell"
    if text.startswith(NOTE_PREFIX) and "\n" not in text.strip():
        return "memory"
    return "message"


_PLAIN_WORDS = {"exit": "quit", "quit": "quit", ":q": "quit", ":q!": "quit", ":wq": "quit", "?": "help"}
"""Words that exit or show help in other programs. A message that is just one of them runs the command."""


def parse_command(text: str) -> Invocation | UnknownCommand | None:
    """Parse the command in a message; None if the message is for the model. Paths and MCP prompts are for the model."""
    mode = detect_prompt_mode(text)
    if mode == "shell":
        return Invocation(command_by_name("shell"), text[len(SHELL_PREFIX) :].strip())
    if mode == "memory":
        return Invocation(command_by_name("remember"), text[len(NOTE_PREFIX) :].strip())
    if text.strip() in _PLAIN_WORDS:
        return Invocation(command_by_name(_PLAIN_WORDS[text.strip()]), "")
    match = _COMMAND_LINE.fullmatch(text.strip())
    if match is None or match.group(1).startswith(MCP_PROMPT_PREFIX):
        return None
    name, argument = match.group(1).lower(), (match.group(2) or "").strip()
    if name in ALIASES and name not in _COMMANDS_BY_NAME:
        name, _, fixed_argument = ALIASES[name].partition(" ")
        argument = f"{fixed_argument} {argument}".strip()
    command = _COMMANDS_BY_NAME.get(name)
    if command is not None:
        return Invocation(command, argument)
    return UnknownCommand(name, commands_for_word(name) or closest_names(name), MISSING_COMMAND_ADVICE.get(name, ""))


def custom_command_name(text: str) -> str:
    """Get the name of the custom command at the start of a message; empty if there is none."""
    match = _CUSTOM_COMMAND.fullmatch(text.strip())
    return match[1] if match is not None and match[1].lower() not in _COMMANDS_BY_NAME else ""


def command_by_name(name: str) -> SlashCommand:
    """Look up a command by name. Raises `KeyError`."""
    return _COMMANDS_BY_NAME[name]


def closest_names(
    name: str, names: Sequence[str] = tuple(_COMMANDS_BY_NAME), min_similarity: float = 0.5
) -> tuple[str, ...]:
    """Find the names that start with `name` or, if there are none, the two most similar ones. `min_similarity`: from 0
    to 1."""
    prefix_matches = [candidate for candidate in names if candidate.startswith(name)]
    return tuple(prefix_matches or difflib.get_close_matches(name, names, n=2, cutoff=min_similarity))


def command_completions(text: str) -> tuple[SlashCommand, ...]:
    """Find the commands that begin with the prompt's text. There are none once an argument follows."""
    if not re.fullmatch(r"/[\w-]*", text):
        return ()
    return tuple(command for command in COMMANDS if command.name.startswith(text[1:].lower()))


def commands_containing(text: str) -> tuple[SlashCommand, ...]:
    """Find the commands that contain the prompt's text without beginning with it. There are none until the second
    letter is typed."""
    if not re.fullmatch(r"/[\w-]{2,}", text):
        return ()
    return tuple(command for command in COMMANDS if command.name.find(text[1:].lower()) > 0)


def alias_completions(text: str) -> tuple[tuple[str, SlashCommand], ...]:
    """Find the aliases that complete the prompt's text, with their commands. There are none until the second letter is
    typed."""
    if not re.fullmatch(r"/[\w-]{2,}", text):
        return ()
    return tuple(
        (name, _COMMANDS_BY_NAME[target.partition(" ")[0]])
        for name, target in ALIASES.items()
        if name.startswith(text[1:].lower())
    )


def command_awaiting_argument(text: str) -> SlashCommand | None:
    """Find the command whose argument is being typed; None if there is none."""
    name, space, _ = text.partition(" ")
    command = _COMMANDS_BY_NAME.get(name[1:].lower()) if space and name.startswith("/") else None
    return command if command is not None and command.argument_hint else None
