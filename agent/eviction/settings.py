"""The user's compaction settings."""

from dataclasses import replace
from typing import Literal, TypeAlias

from ebbtide.agent.config.options import ContextStyle
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class SummaryPreferences:
    """The user's prompts and directives for summaries."""

    summary_prompt: str = ""
    """Replaces the default list of what the summary should contain."""
    summary_directives: tuple[str, ...] = ()
    retain_prompt: str = ""
    retain_directives: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CompactionCaps:
    """Token limits for the parts of a compacted view, and the newest content that masking spares."""

    tail: int = 6_000
    ledger: int = 3600
    retain: int = 1200
    summary: int = 1800
    protected_output_tokens: int = 4_000
    """Tokens of the newest outputs that are left unmasked as long as possible."""
    protected_message_count: int = 0
    """Number of newest messages whose outputs are left unmasked as long as possible, regardless of their size."""
    carried_output_tokens: int = 20_000
    """Tokens of files and search results that stay in view across a summary because they are likely to be needed."""
    output_name_tokens: int = 12_000
    """Maximum tokens of the list of removed outputs and the names found in them."""
    max_tail_turns: int = 1
    """Number of newest turns that the tail may contain if they fit."""


RewritePolicy: TypeAlias = Literal["cost", "total_budget", "fixed", "off"]
"""When the view is rewritten automatically. `cost`: as soon as a rewrite pays off. `total_budget`: when its outputs
exceed `protect_tokens`. `fixed`: only when the window is nearly full. `off`: never."""


@dataclass(frozen=True, slots=True)
class RewritePatience:
    """Carrying cost must exceed a rewrite's cost by these factors. Compaction loses text, so its factor is higher."""

    mask: float = 4.5
    compact: float = 6.0
    recall: float = 2.5
    """An output is masked only once carrying it has cost this many times the expected cost of recalling it. A missing
    output does more harm than recalling it costs, and the model might not notice that the output is missing."""


PATIENCE_BY_STYLE: dict[ContextStyle, RewritePatience] = {
    "frugal": RewritePatience(mask=1.5, compact=4.0, recall=1.5),
    "balanced": RewritePatience(),
    "careful": RewritePatience(mask=18.0, compact=30.0, recall=15.0),
}
"""The factors of each style. docs/performance.md has what each costs in recorded sessions and how often something was
needed again."""
MIN_CAREFUL_WINDOW_TOKENS = 600_000
"""Usable tokens from which `careful` is the default style: outputs can stay for long before the window is full."""


def default_style(window_tokens: int) -> ContextStyle:
    """Return the style of a session whose user has not chosen one. `window_tokens`: usable tokens of its window."""
    return "careful" if window_tokens >= MIN_CAREFUL_WINDOW_TOKENS else "balanced"


def patience_for_style(style: ContextStyle, balanced: RewritePatience) -> RewritePatience:
    """Return the factors of a style. `balanced`: the factors of the balanced style, which the user may have changed;
    those of the other styles change in proportion."""
    chosen, usual = PATIENCE_BY_STYLE[style], PATIENCE_BY_STYLE["balanced"]
    return RewritePatience(
        balanced.mask * (chosen.mask / usual.mask),
        balanced.compact * (chosen.compact / usual.compact),
        balanced.recall * (chosen.recall / usual.recall),
    )


@dataclass(slots=True)
class StyleChoice:
    """The context style of a session, which the user can change while the session is open."""

    initial: ContextStyle | None = None
    """The user's choice when the session was opened. None: the default for the window."""
    changed: ContextStyle | None = None
    """The user's choice since then."""
    is_changed: bool = False

    def change(self, style: ContextStyle | None) -> None:
        """Set another style. None: the default for the window."""
        self.changed, self.is_changed = style, True

    def style_for(self, window_tokens: int) -> ContextStyle:
        return (self.changed if self.is_changed else self.initial) or default_style(window_tokens)

    def initial_style_for(self, window_tokens: int) -> ContextStyle:
        """Return the style in which the session was opened."""
        return self.initial or default_style(window_tokens)

    def apply(self, settings: "CompactionSettings", window_tokens: int) -> "CompactionSettings":
        """Return the settings with the patience of the current style. `settings` has that of the balanced style."""
        return replace(settings, patience=patience_for_style(self.style_for(window_tokens), settings.patience))


@dataclass(frozen=True, slots=True)
class CompactionSettings:
    """The user's compaction settings."""

    caps: CompactionCaps = CompactionCaps()
    preferences: SummaryPreferences = SummaryPreferences()
    on_full: Literal["compact", "final"] = "compact"
    """`final`: a full window ends the turn with a report instead of a compaction."""
    policy: RewritePolicy = "cost"
    patience: RewritePatience = RewritePatience()
    background_share: float = 0.65
    """Share of the effective window above which a summary is written between turns, if it will pay off."""
    background_message_count: int = 400
    """Number of messages above which a summary is written between turns, if it will pay off."""

    @property
    def is_automatic(self) -> bool:
        """Whether the view is rewritten automatically. If not, only the user and the model start compactions, and a
        full window ends the turn."""
        return self.policy != "off"
