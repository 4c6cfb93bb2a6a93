"""The slash commands, as a table: what may be typed. What a command does is for the front end to say."""

import difflib
import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from tools.lazy import dataclass, regex
from tui.command_names import ALIASES, ELSEWHERE, meant_by

SHELL, MEMORY = "!", "# "
"""How a message begins that is a command for the shell, or something to remember."""

PromptMode: TypeAlias = Literal["message", "shell", "memory"]


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    hint: str
    """What may follow the name, as shown in help and completion."""
    help: str
    when_busy: bool = False
    """The command may run while a turn runs."""
    of_session: bool = False
    """It changes a session or tells of it: while another one is being opened, it is meant for that one."""

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.hint}".rstrip()


COMMANDS: tuple[Command, ...] = (
    Command("help", "", "keys and commands", when_busy=True),
    Command("compact", "[focus]", "summarise the conversation to make room, after a look at what that does"),
    Command("undo", "[list]", "take back what the last turn changed in files, after a look at it; `list`: any turn"),
    Command("redo", "", "bring back what was taken back last"),
    Command("context", "[ACT REF]", "what fills the window, and what to do about it", when_busy=True, of_session=True),
    Command("archive", "", "outputs and messages that were kept, to look through"),
    Command("why", "TEXT", "whether the model sees a text, and where it went"),
    Command("bring", "REF", "show the model again what left its view"),
    Command("mcp", "", "servers: their tools, prompts and state", when_busy=True, of_session=True),
    Command("skills", "", "instructions for tasks that the model can look up: yours, and this folder's"),
    Command(
        "hooks", "", "programs that are told what happens: yours, and this folder's", when_busy=True, of_session=True
    ),
    Command("trust", "", "what this folder brings, and what of it you approve", when_busy=True, of_session=True),
    Command("resume", "[id]", "go on with an earlier session; without an id: find, rename, fork, delete"),
    Command("sessions", "", "the same list of sessions"),
    Command("rewind", "", "go back to before one of your messages: the conversation in a fork, files, or both"),
    Command("model", "[name]", "go on with another model"),
    Command("key", "[provider]", "replace the API key of a provider and continue with the new one"),
    Command("effort", "[level]", "how hard the model thinks: low, medium, high and so on, where it can"),
    Command(
        "thinking", "[how]", "the model's thoughts: `line`, `open` or `hidden`; without it the next one", when_busy=True
    ),
    Command(
        "mode",
        "[name]",
        "ask, accept-edits, plan or auto; without a name the next one",
        when_busy=True,
        of_session=True,
    ),
    Command(
        "add-dir",
        "[FOLDER]",
        "work in another folder, too; without a name: list them, and remove one",
        when_busy=True,
        of_session=True,
    ),
    Command(
        "sandbox",
        "",
        "the sandbox: what commands may write, what they do not see, and the network",
        when_busy=True,
        of_session=True,
    ),
    Command("clear", "", "start a new session"),
    Command("rename", "TITLE", "give the session another title", when_busy=True, of_session=True),
    Command("fork", "", "go on in a copy of the session, which stays as it is"),
    Command(
        "export",
        "[file]",
        "write the conversation into a file (.md, .html, .json), without keys and passwords",
        when_busy=True,
        of_session=True,
    ),
    Command(
        "status", "", "the session: model, cost and tokens, window, files changed", when_busy=True, of_session=True
    ),
    Command(
        "tasks",
        "[forward]",
        "commands that run in the background; `forward`: reach the ports that they listen on",
        when_busy=True,
        of_session=True,
    ),
    Command(
        "agents",
        "[stop NAME]",
        "agents that the model has sent off: look at them, stop one",
        when_busy=True,
        of_session=True,
    ),
    Command("review", "[what]", "have the model review what is changed, or what you name"),
    Command("init", "", "have the model propose an AGENT.md for this project"),
    Command("shell", "COMMAND", "run a command yourself, for the model to see; `!COMMAND` does the same"),
    Command("remember", "TEXT", "keep something for later sessions; `# TEXT` does the same"),
    Command("memory", "", "the instructions and notes that sessions begin with: open them, or forget one"),
    Command("editor", "", "write the message in your editor", when_busy=True),
    Command("vim", "", "vi keys in the prompt, or the usual ones again", when_busy=True),
    Command("history", "", "find a message that you wrote before", when_busy=True),
    Command("later", "TEXT", "send a message when the turn is over, not at its next step", when_busy=True),
    Command("todos", "", "the list that the model works through", when_busy=True),
    Command(
        "plan", "", "the last plan that was handed in, and what was decided about it", when_busy=True, of_session=True
    ),
    Command("commands", "", "everything that can be done, in one list", when_busy=True),
    Command("panel", "", "the panel beside the conversation on a wide screen: show it or not", when_busy=True),
    Command("theme", "[name]", "the colours of the terminal", when_busy=True),
    Command("settings", "[words]", "every setting, to look at and to change", when_busy=True),
    Command("doctor", "", "checks settings, keys, folders and the store", when_busy=True),
    Command("copy", "", "copy the last answer", when_busy=True),
    Command("print", "", "print the conversation into the terminal's scrollback", when_busy=True),
    Command(
        "diff", "[session]", "what the last turn, or the session, changed in files", when_busy=True, of_session=True
    ),
    Command("files", "", "the files that the session changed", when_busy=True, of_session=True),
    Command("quit", "", "leave", when_busy=True),
)


@dataclass(frozen=True, slots=True)
class Invocation:
    command: Command
    argument: str

    @property
    def written(self) -> str:
        """The message that asks for it."""
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

    told: str = ""
    """What does that here, where no command does."""

    @property
    def message(self) -> str:
        if self.told:
            return f"there is no `/{self.name}`: {self.told}"
        near = " or ".join(f"`/{name}`" for name in self.closest)
        return f"there is no `/{self.name}`; " + (f"did you mean {near}?" if near else "`/help` lists the commands")


PROMPTS = "mcp__"
"""How the commands begin that stand for prompts of servers."""

_NAMED = {command.name: command for command in COMMANDS}

_CUSTOM = regex(r"/(\w[\w.:-]*)(?:\s.*)?", re.DOTALL)
_FORM = regex(r"/([a-zA-Z][\w-]*)(?:\s+(.*))?", re.DOTALL)


def mode_of(text: str) -> PromptMode:
    """What a message is for, as far as its first characters tell. A heading with text below it is for the model."""
    if text.startswith(SHELL):
        return "shell"
    if text.startswith(MEMORY) and "\n" not in text.strip():
        return "memory"
    return "message"


_WORDS = {"exit": "quit", "quit": "quit", ":q": "quit", ":q!": "quit", ":wq": "quit", "?": "help"}
"""What other programs are left or asked with. Alone such a word is no message either."""


def parse(text: str) -> Invocation | Unknown | None:
    """The command that a message is, or None when it is a message for the model: a path is no command, and what a
    server's prompt says is for the model."""
    mode = mode_of(text)
    if mode == "shell":
        return Invocation(named("shell"), text[len(SHELL) :].strip())
    if mode == "memory":
        return Invocation(named("remember"), text[len(MEMORY) :].strip())
    if text.strip() in _WORDS:
        return Invocation(named(_WORDS[text.strip()]), "")
    form = _FORM.fullmatch(text.strip())
    if form is None or form.group(1).startswith(PROMPTS):
        return None
    name, argument = form.group(1).lower(), (form.group(2) or "").strip()
    if name in ALIASES and name not in _NAMED:
        name, _, begun = ALIASES[name].partition(" ")
        argument = f"{begun} {argument}".strip()
    command = _NAMED.get(name)
    if command is not None:
        return Invocation(command, argument)
    return Unknown(name, meant_by(name) or closest(name), ELSEWHERE.get(name, ""))


def custom_name(text: str) -> str:
    """The name that a message begins with as a command does, if no command of the program has it."""
    form = _CUSTOM.fullmatch(text.strip())
    return form[1] if form is not None and form[1].lower() not in _NAMED else ""


def named(name: str) -> Command:
    """The command of that name. Raises `KeyError`."""
    return _NAMED[name]


def closest(name: str, names: Sequence[str] = tuple(_NAMED), alike: float = 0.5) -> tuple[str, ...]:
    """The names that begin so, or else those that are at least so much alike."""
    starting = [known for known in names if known.startswith(name)]
    return tuple(starting or difflib.get_close_matches(name, names, n=2, cutoff=alike))


def completions(text: str) -> tuple[Command, ...]:
    """The commands that what is in the prompt may become; none once the name is complete and an argument follows."""
    if not re.fullmatch(r"/[\w-]*", text):
        return ()
    return tuple(command for command in COMMANDS if command.name.startswith(text[1:].lower()))


def other_names(text: str) -> tuple[tuple[str, Command], ...]:
    """The names by which other programs know commands that what is in the prompt may become, from its second letter
    on."""
    if not re.fullmatch(r"/[\w-]{2,}", text):
        return ()
    return tuple(
        (name, _NAMED[target.partition(" ")[0]])
        for name, target in ALIASES.items()
        if name.startswith(text[1:].lower())
    )


def hint_for(text: str) -> Command | None:
    """The command whose argument is being written."""
    name, blank, _ = text.partition(" ")
    command = _NAMED.get(name[1:].lower()) if blank and name.startswith("/") else None
    return command if command is not None and command.hint else None
