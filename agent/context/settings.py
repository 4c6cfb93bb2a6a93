"""The user's compaction settings. Pure."""

from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.context.estimate import estimate_text
from ebbtide.agent.context.summary import Draft, Wishes
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class Caps:
    """Maximum tokens of the parts of a compacted view."""

    tail: int = 6_000
    ledger: int = 3600
    retain: int = 1200
    summary: int = 1800
    protect: int = 4_000
    """Newest outputs that masking spares as long as possible."""
    newest: int = 0
    """Number of newest messages whose outputs masking spares as long as possible, whatever their size."""
    carried: int = 6_000
    """Unchanged files that stay in view across a summary."""
    names: int = 2_500
    """Names found in outputs that a summary removes."""
    turns: int = 1
    """Number of newest turns that the tail may contain if they fit."""


RewritePolicy: TypeAlias = Literal["rent", "total_budget", "fixed", "off"]
"""When the view is rewritten automatically: as soon as it pays, when its outputs exceed `protect`, only when the window
is nearly full, or never."""


@dataclass(frozen=True, slots=True)
class RewritePatience:
    """Factor on a rewrite's cost that its carrying cost must reach. A compaction loses text, so it waits longer."""

    mask: float = 1.5
    compact: float = 6.0
    wanted: float = 2.5
    """Factor on the expected cost of recalling an output that keeping it must have cost: missing something is worse
    than its price, and not always noticed."""

    @property
    def careful(self) -> "RewritePatience":
        """Settings for a user who prefers paying more to missing something."""
        return RewritePatience(5 * self.mask, 1.5 * self.compact)


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """The user's compaction settings."""

    caps: Caps = Caps()
    wishes: Wishes = Wishes()
    on_full: Literal["compact", "final"] = "compact"
    """`final`: a full window ends the turn with a report instead of a compaction."""
    policy: RewritePolicy = "rent"
    patience: RewritePatience = RewritePatience()
    background_at: float = 0.65
    """Share of the effective window from which a summary is made between turns, if it will pay."""
    background_messages: int = 400
    """The same, as a number of messages."""

    @property
    def is_automatic(self) -> bool:
        """False: only the user and the model compact, and an overfull window ends the turn."""
        return self.policy != "off"


def spacious(caps: Caps, draft: Draft) -> Caps:
    """Raise the caps to fit the whole draft: a summary edited by a person is not cut."""
    retain, summary = estimate_text(draft.retain), estimate_text(draft.summary)
    return replace(caps, retain=max(caps.retain, retain), summary=max(caps.summary, summary))
