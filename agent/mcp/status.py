"""The servers of a session as its user sees them. Plain values, which only those load who look at servers."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

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
class ServerNamed:
    """What a message can name of a server."""

    name: str
    prompts: tuple[PromptSeen, ...]
    resources: tuple[str, ...]
    """Their addresses."""


@dataclass(frozen=True, slots=True)
class ServerSeen:
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
    tools: tuple[ToolSeen, ...]
    prompts: tuple[PromptSeen, ...]
    resources: tuple[str, ...]
    """Their addresses."""
    notes: tuple[str, ...]
    """What is remarkable or was left out, a line each."""
    log: Path | None
    """What it printed on its error output; None while it does not run."""
    is_on: bool
    """Whether it is to run in this session."""

    @property
    def tokens(self) -> int:
        """What its definitions take of every request."""
        return sum(tool.tokens for tool in self.tools if tool.offer == "offered")
