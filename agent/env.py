"""What a turn works with: the parts of a session, as its steps see them. It does nothing itself."""

from collections.abc import Callable
from dataclasses import dataclass, field

from agent.compaction import Lessons, Summarisers
from agent.context.prompt import Instructions
from agent.context.select import ToolSpec
from agent.context.settings import Compacting
from agent.debug import Debug
from agent.deferral import Deferral
from agent.events import Event
from agent.execute import Hands
from agent.interrupt import Interrupt
from agent.meter import Meter
from agent.providers.base import Provider
from agent.recorder import Recorder
from agent.rent import Rent
from agent.tail import Tail
from agent.targets import Targets
from agent.watch import Watch


@dataclass(frozen=True, slots=True)
class Limits:
    steps: int | None = None
    """Requests that a turn may make."""
    cost: float | None = None
    """US dollars that may be spent before the next request is refused."""


@dataclass(frozen=True, slots=True)
class Env:
    """What a step works with."""

    targets: Targets
    """The model that is asked, and those that may follow it."""
    instructions: Instructions
    tools: tuple[ToolSpec, ...]
    hands: Hands
    recorder: Recorder
    interrupt: Interrupt
    emit: Callable[[Event], None]
    spent: Callable[[], float]
    """US dollars so far in this run."""
    limits: Limits = Limits()  # a frozen value
    compacting: Compacting = Compacting()  # noqa: RUF009  # a frozen value
    summarisers: Summarisers | None = None
    """The models that the user set for summaries."""
    lessons: Lessons = field(default_factory=Lessons)
    effort: str | None = None
    debug: Debug = field(default_factory=Debug)
    meter: Meter = field(default_factory=Meter)
    """What is known of the size of requests."""
    watch: Watch = field(default_factory=Watch)
    rent: Rent = field(default_factory=Rent)
    """What was paid for what could have left the view."""
    tail: Tail = field(default_factory=Tail)
    deferral: Deferral = field(default_factory=Deferral)
    """Which of the tools are held back."""

    @property
    def provider(self) -> Provider:
        return self.targets.provider
