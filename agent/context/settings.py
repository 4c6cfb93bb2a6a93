"""How a session compacts, as the user set it. Pure."""

from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.context.estimate import estimate_text
from ebbtide.agent.context.summary import Draft, Wishes
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Caps:
    """Tokens that the parts of a compacted view may take."""

    tail: int = 6_000
    ledger: int = 3600
    retain: int = 1200
    summary: int = 1800
    protect: int = 4_000
    """Newest outputs that masking leaves whole while there is another way."""
    newest: int = 0
    """Newest messages whose outputs masking leaves whole while there is another way, however large they are."""
    carried: int = 6_000
    """Files that are as they were read and stay over a summary."""
    names: int = 2_500
    """Names in outputs that leave with a summary."""
    turns: int = 1
    """Newest turns that the tail may hold, as far as they fit."""


RewritePolicy: TypeAlias = Literal["rent", "total_budget", "fixed", "off"]
"""When the view is rewritten unasked: as soon as that pays, as soon as its outputs together exceed `protect`, only when
the window is nearly full, or never."""


@dataclass(frozen=True, slots=True)
class RewritePatience:
    """How many times its cost a rewrite's rent must reach. A compaction loses words, so it waits longer."""

    mask: float = 1.5
    compact: float = 6.0
    wanted: float = 2.5
    """How many times what it would cost to bring an output back, by how likely that is, keeping it must have cost: to
    miss something is worse than its price, and not always noticed."""

    @property
    def careful(self) -> "RewritePatience":
        """That of somebody who would rather pay more than miss something."""
        return RewritePatience(5 * self.mask, 1.5 * self.compact)


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """How a session compacts, as the user set it."""

    caps: Caps = Caps()
    wishes: Wishes = Wishes()
    on_full: Literal["compact", "final"] = "compact"
    """`final`: a full window ends the turn with a report instead of a compaction."""
    policy: RewritePolicy = "rent"
    patience: RewritePatience = RewritePatience()
    background_at: float = 0.65
    """Share of the usable window from which a summary is made between two turns, where it will pay."""
    background_messages: int = 400
    """The same by the number of messages."""

    @property
    def is_automatic(self) -> bool:
        """False: only the user and the model compact, and a window that is too full ends the turn."""
        return self.policy != "off"


def spacious(caps: Caps, draft: Draft) -> Caps:
    """The caps with room for all of a summary: what a person has written is not cut."""
    retain, summary = estimate_text(draft.retain), estimate_text(draft.summary)
    return replace(caps, retain=max(caps.retain, retain), summary=max(caps.summary, summary))
