"""The table of slash commands and their parser. What a command does is in `tui/actions`."""

import difflib
import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tui.command_names import ALIASES, ELSEWHERE, commands_meaning

SHELL, MEMORY = "!", "# "
"""Prefixes of shell commands and of notes."""

PromptMode: TypeAlias = Literal["message", "shell", "memory"]


@dataclass(frozen=True, slots=True)
class SlashCommand:
    name: str
    hint: str
    """The arguments, as shown in help and completion."""
    help: str
    when_busy: bool = False
    """Whether the command may run during a turn."""
    of_session: bool = False
    """Whether the command acts on a session. While another session is being opened, it waits for that one."""

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.hint}".rstrip()


COMMANDS: tuple[SlashCommand, ...] = (
    SlashCommand("help", "", "keys and commands", when_busy=True),
    SlashCommand("compact", "[focus]", "summarise the conversation to make room, after a look at what that does"),
    SlashCommand(
        "undo", "[list]", "take back what the last turn changed in files, after a look at it; `list`: any turn"
    ),
    SlashCommand("redo", "", "bring back what was taken back last"),
    SlashCommand(
        "context", "[ACT REF]", "what fills the window, and what to do about it", when_busy=True, of_session=True
    ),
    SlashCommand("archive", "", "outputs and messages that were kept, to look through"),
    SlashCommand("why", "TEXT", "whether the model sees a text, and where it went"),
    SlashCommand("bring", "REF", "show the model again what left its view"),
    SlashCommand("mcp", "", "servers: their tools, prompts and state", when_busy=True, of_session=True),
    SlashCommand("skills", "", "instructions for tasks that the model can look up: yours, and this folder's"),
    SlashCommand(
        "hooks", "", "programs that are told what happens: yours, and this folder's", when_busy=True, of_session=True
    ),
    SlashCommand("trust", "", "what this folder brings, and what of it you approve", when_busy=True, of_session=True),
    SlashCommand("resume", "[id]", "go on with an earlier session; without an id: find, rename, fork, delete"),
    SlashCommand("sessions", "", "the same list of sessions"),
    SlashCommand("rewind", "", "go back to before one of your messages: the conversation in a fork, files, or both"),
    SlashCommand("model", "[name]", "go on with another model"),
    SlashCommand("key", "[provider]", "replace the API key of a provider and continue with the new one"),
    SlashCommand("effort", "[level]", "how hard the model thinks: low, medium, high and so on, where it can"),
    SlashCommand(
        "thinking", "[how]", "the model's thoughts: `line`, `open` or `hidden`; without it the next one", when_busy=True
    ),
    SlashCommand(
        "mode",
        "[name]",
        "ask, accept-edits, plan or auto; without a name the next one",
        when_busy=True,
        of_session=True,
    ),
    SlashCommand(
        "add-dir",
        "[FOLDER]",
        "work in another folder, too; without a name: list them, and remove one",
        when_busy=True,
        of_session=True,
    ),
    SlashCommand(
        "sandbox",
        "",
        "the sandbox: what commands may write, what they do not see, and the network",
        when_busy=True,
        of_session=True,
    ),
    SlashCommand("clear", "", "start a new session"),
    SlashCommand("rename", "TITLE", "give the session another title", when_busy=True, of_session=True),
    SlashCommand("fork", "", "go on in a copy of the session, which stays as it is"),
    SlashCommand(
        "export",
        "[file]",
        "write the conversation into a file (.md, .html, .json), without keys and passwords",
        when_busy=True,
        of_session=True,
    ),
    SlashCommand(
        "status", "", "the session: model, cost and tokens, window, files changed", when_busy=True, of_session=True
    ),
    SlashCommand(
        "tasks",
        "[forward]",
        "commands that run in the background; `forward`: reach the ports that they listen on",
        when_busy=True,
        of_session=True,
    ),
    SlashCommand(
        "agents",
        "[stop NAME]",
        "agents that the model has sent off: look at them, stop one",
        when_busy=True,
        of_session=True,
    ),
    SlashCommand("review", "[what]", "have the model review what is changed, or what you name"),
    SlashCommand("init", "", "have the model propose an AGENT.md for this project"),
    SlashCommand("shell", "COMMAND", "run a command yourself, for the model to see; `!COMMAND` does the same"),
    SlashCommand("remember", "TEXT", "keep something for later sessions; `# TEXT` does the same"),
    SlashCommand("memory", "", "the instructions and notes that sessions begin with: open them, or forget one"),
    SlashCommand("editor", "", "write the message in your editor", when_busy=True),
    SlashCommand("vim", "", "vi keys in the prompt, or the usual ones again", when_busy=True),
    SlashCommand("history", "", "find a message that you wrote before", when_busy=True),
    SlashCommand("later", "TEXT", "send a message when the turn is over, not at its next step", when_busy=True),
    SlashCommand("todos", "", "the list that the model works through", when_busy=True),
    SlashCommand(
        "plan", "", "the last plan that was handed in, and what was decided about it", when_busy=True, of_session=True
    ),
    SlashCommand("commands", "", "everything that can be done, in one list", when_busy=True),
    SlashCommand("panel", "", "the panel beside the conversation on a wide screen: show it or not", when_busy=True),
    SlashCommand("theme", "[name]", "the colours of the terminal", when_busy=True),
    SlashCommand("settings", "[words]", "every setting, to look at and to change", when_busy=True),
    SlashCommand("doctor", "", "checks settings, keys, folders and the store", when_busy=True),
    SlashCommand("copy", "", "copy the last answer", when_busy=True),
    SlashCommand("print", "", "print the conversation into the terminal's scrollback", when_busy=True),
    SlashCommand(
        "diff", "[session]", "what the last turn, or the session, changed in files", when_busy=True, of_session=True
    ),
    SlashCommand("files", "", "the files that the session changed", when_busy=True, of_session=True),
    SlashCommand("quit", "", "leave", when_busy=True),
)


@dataclass(frozen=True, slots=True)
class Invocation:
    command: SlashCommand
    argument: str

    @property
    def source_text(self) -> str:
        """The message that would invoke it."""
        match self.command.name:
            case "shell":
                return f"{SHELL}{self.argument}"
            case "remember":
                return f"{MEMORY}{self.argument}"
            case name:
                return f"/{name} {self.argument}".rstrip()


@dataclass(frozen=True, slots=True)
class Unknown:
    name: str
    closest: tuple[str, ...]

    alternative: str = ""
    """What to use instead, if there is no such command."""

    @property
    def message(self) -> str:
        if self.alternative:
            return f"there is no `/{self.name}`: {self.alternative}"
        near = " or ".join(f"`/{name}`" for name in self.closest)
        return f"there is no `/{self.name}`; " + (f"did you mean {near}?" if near else "`/help` lists the commands")


PROMPTS = "mcp__"
"""Prefix of commands for MCP prompts."""

_BY_NAME = {command.name: command for command in COMMANDS}

_CUSTOM = regex(r"/(\w[\w.:-]*)(?:\s.*)?", re.DOTALL)
_FORM = regex(r"/([a-zA-Z][\w-]*)(?:\s+(.*))?", re.DOTALL)


def mode_of(text: str) -> PromptMode:
    """The kind of message, from its first characters. A heading with text below it is a message."""
    if text.startswith(SHELL):
        return "shell"
    if text.startswith(MEMORY) and "\n" not in text.strip():
        return "memory"
    return "message"


_WORDS = {"exit": "quit", "quit": "quit", ":q": "quit", ":q!": "quit", ":wq": "quit", "?": "help"}
"""Words that quit or ask for help in other programs; alone they are commands, not messages."""


def parse(text: str) -> Invocation | Unknown | None:
    """Return the command in a message, or None for a message to the model. Paths and MCP prompts are messages."""
    mode = mode_of(text)
    if mode == "shell":
        return Invocation(command_named("shell"), text[len(SHELL) :].strip())
    if mode == "memory":
        return Invocation(command_named("remember"), text[len(MEMORY) :].strip())
    if text.strip() in _WORDS:
        return Invocation(command_named(_WORDS[text.strip()]), "")
    form = _FORM.fullmatch(text.strip())
    if form is None or form.group(1).startswith(PROMPTS):
        return None
    name, argument = form.group(1).lower(), (form.group(2) or "").strip()
    if name in ALIASES and name not in _BY_NAME:
        name, _, begun = ALIASES[name].partition(" ")
        argument = f"{begun} {argument}".strip()
    command = _BY_NAME.get(name)
    if command is not None:
        return Invocation(command, argument)
    return Unknown(name, commands_meaning(name) or closest(name), ELSEWHERE.get(name, ""))


def custom_name(text: str) -> str:
    """The command name at the start of a message, unless it is a built-in one."""
    form = _CUSTOM.fullmatch(text.strip())
    return form[1] if form is not None and form[1].lower() not in _BY_NAME else ""


def command_named(name: str) -> SlashCommand:
    """Return the command of that name. Raises `KeyError`."""
    return _BY_NAME[name]


def closest(name: str, names: Sequence[str] = tuple(_BY_NAME), alike: float = 0.5) -> tuple[str, ...]:
    """The names that start with `name`, else those with a similarity of at least `alike`."""
    starting = [known for known in names if known.startswith(name)]
    return tuple(starting or difflib.get_close_matches(name, names, n=2, cutoff=alike))


def completions(text: str) -> tuple[SlashCommand, ...]:
    """The commands that complete the text of the prompt; none once an argument follows."""
    if not re.fullmatch(r"/[\w-]*", text):
        return ()
    return tuple(command for command in COMMANDS if command.name.startswith(text[1:].lower()))


def other_names(text: str) -> tuple[tuple[str, SlashCommand], ...]:
    """The aliases that complete the text of the prompt, from its second letter on."""
    if not re.fullmatch(r"/[\w-]{2,}", text):
        return ()
    return tuple(
        (name, _BY_NAME[target.partition(" ")[0]])
        for name, target in ALIASES.items()
        if name.startswith(text[1:].lower())
    )


def hint_for(text: str) -> SlashCommand | None:
    """The command whose argument is being typed."""
    name, blank, _ = text.partition(" ")
    command = _BY_NAME.get(name[1:].lower()) if blank and name.startswith("/") else None
    return command if command is not None and command.hint else None
