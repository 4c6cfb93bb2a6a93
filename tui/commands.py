"""The slash commands, as a table. Commands know what they ask of the terminal, not how it is done."""

import difflib
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol


class Desk(Protocol):
    """What commands act on."""

    async def show_help(self) -> None: ...
    async def compact(self, focus: str) -> None: ...
    async def show_context(self) -> None: ...
    async def show_archive(self) -> None: ...
    async def why(self, text: str) -> None: ...
    async def bring(self, ref: str) -> None: ...
    async def show_servers(self) -> None: ...
    async def resume(self, id: str) -> None: ...
    async def choose_model(self, name: str) -> None: ...
    async def clear(self) -> None: ...
    async def leave(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Command:
    name: str
    hint: str
    """What may follow the name, as shown in help and completion."""
    help: str
    run: Callable[[Desk, str], Awaitable[None]]
    """Takes what followed the name."""
    when_busy: bool = False
    """The command may run while a turn runs."""

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.hint}".rstrip()


COMMANDS: tuple[Command, ...] = (
    Command("help", "", "keys and commands", lambda desk, _: desk.show_help(), when_busy=True),
    Command("compact", "[focus]", "summarise the conversation to make room", lambda desk, focus: desk.compact(focus)),
    Command("context", "", "what fills the window and what it has cost", lambda desk, _: desk.show_context(), True),
    Command("archive", "", "outputs and messages that were kept, to look through", lambda desk, _: desk.show_archive()),
    Command("why", "TEXT", "whether the model sees a text, and where it went", lambda desk, text: desk.why(text)),
    Command("bring", "REF", "show the model again what left its view", lambda desk, ref: desk.bring(ref)),
    Command("mcp", "", "servers: their tools, prompts and state", lambda desk, _: desk.show_servers(), when_busy=True),
    Command("resume", "[id]", "go on with an earlier session", lambda desk, id: desk.resume(id)),
    Command("model", "[name]", "go on with another model", lambda desk, name: desk.choose_model(name)),
    Command("clear", "", "start a new session", lambda desk, _: desk.clear()),
    Command("quit", "", "leave", lambda desk, _: desk.leave(), when_busy=True),
)


@dataclass(frozen=True, slots=True)
class Invocation:
    command: Command
    argument: str


@dataclass(frozen=True, slots=True)
class Unknown:
    name: str
    closest: tuple[str, ...]

    @property
    def message(self) -> str:
        near = " or ".join(f"`/{name}`" for name in self.closest)
        return f"there is no `/{self.name}`; " + (f"did you mean {near}?" if near else "`/help` lists the commands")


PROMPTS = "mcp__"
"""How the commands begin that stand for prompts of servers."""

_FORM = re.compile(r"/([a-zA-Z][\w-]*)(?:\s+(.*))?", re.DOTALL)


def parse(text: str) -> Invocation | Unknown | None:
    """The command that a message is, or None when it is a message for the model: a path is no command, and what a
    server's prompt says is for the model."""
    form = _FORM.fullmatch(text.strip())
    if form is None or form.group(1).startswith(PROMPTS):
        return None
    name, argument = form.group(1).lower(), (form.group(2) or "").strip()
    for command in COMMANDS:
        if command.name == name:
            return Invocation(command, argument)
    return Unknown(name, closest(name))


def closest(name: str) -> tuple[str, ...]:
    names = [command.name for command in COMMANDS]
    starting = [known for known in names if known.startswith(name)]
    return tuple(starting or difflib.get_close_matches(name, names, n=2, cutoff=0.5))


def completions(text: str) -> tuple[Command, ...]:
    """The commands that what is in the prompt may become; none once the name is complete and an argument follows."""
    if not re.fullmatch(r"/[\w-]*", text):
        return ()
    return tuple(command for command in COMMANDS if command.name.startswith(text[1:].lower()))
