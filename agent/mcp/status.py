"""The servers of a session as its user sees them, and what can be done with them. It runs nothing."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from tools.lazy import dataclass

ToolOffer: TypeAlias = Literal["offered", "held back", "due", "late", "not approved", "away"]
"""Whether the model is shown a tool; held back, it finds it by a search; due, it is shown it from the next request on;
late, after the next rewrite of the view; away, the server that offered it is not ready."""


@dataclass(frozen=True, slots=True)
class ToolSeen:
    name: str
    """The server's own name of it."""
    description: str
    tokens: int
    """Estimated, of its definition."""
    offer: ToolOffer


@dataclass(frozen=True, slots=True)
class PromptSeen:
    command: str
    """Without its slash: `mcp__SERVER__PROMPT`."""
    arguments: str
    """As they are written behind the command: `FILE [STYLE]`."""
    description: str


@dataclass(frozen=True, slots=True)
class ServerStatus:
    name: str
    source: str
    """The file that declares it."""
    runs: str
    """Its command or address."""
    phase: str
    detail: str
    """One line; empty when there is nothing to say."""
    title: str
    """What it calls itself, with its version; empty when that is not known."""
    prompts: tuple[PromptSeen, ...]
    resources: tuple[str, ...]
    """Their addresses."""
    notes: tuple[str, ...]
    """What is remarkable or was left out, a line each."""
    log: Path | None
    """What it printed on its error output; None while it does not run."""
    tools: tuple[ToolSeen, ...] = ()

    @property
    def is_on(self) -> bool:
        """Whether it is to run in this session."""
        return self.log is not None

    @property
    def tokens(self) -> int:
        """What its definitions take of every request."""
        return sum(tool.tokens for tool in self.tools if tool.offer == "offered")


class ServerControl(Protocol):
    """All servers of a session. What is done here holds for this session."""

    def servers(self) -> Sequence[ServerStatus]:
        """All that is known of each: the tokens of every tool are estimated for it."""
        ...

    def named(self) -> Sequence[ServerStatus]:
        """The same at once, without their tools: for what can be named of them."""
        ...

    def watch(self, changed: Callable[[], None] | None) -> None:
        """`changed` is called after every change of a server, until somebody else watches."""
        ...

    async def switch(self, name: str) -> None:
        """Ends a server that runs, starts one that does not."""
        ...

    async def restart(self, name: str) -> None: ...

    def log(self, name: str, lines: int) -> Sequence[str]:
        """The last lines of what a server printed on its error output; why they cannot be read, if they cannot."""
        ...

    async def login(self, name: str, show: Callable[[str], None]) -> None:
        """Lets the user log in to a server that wants it, at the address that is shown."""
        ...
