"""What a session is made of, put together by the composition root."""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from agent.archive import Archive
from agent.context.notes import Surroundings
from agent.context.offload import Offloading
from agent.context.prompt import Instructions
from agent.context.settings import Compacting
from agent.debug import Debug
from agent.deferral import Deferral
from agent.env import Limits, Servers
from agent.filelog import FileLog
from agent.gate import nothing_earlier
from agent.lessons import Lessons, Summarisers
from agent.messages import ToolCall
from agent.meter import Meter
from agent.options import AfterTool
from agent.permissions import Policy, Rule
from agent.project_rules import ProjectRules
from agent.recall import Recall
from agent.recorder import Recorder
from agent.rent import Rent
from agent.served import Served
from agent.shelf import Shelf
from agent.stream import Retries
from agent.targets import Targets
from tools.base import Tool, Workspace


@dataclass(frozen=True, slots=True)
class Parts:
    """What a session is made of."""

    targets: Targets
    """The session's model, and those that follow it when a conversation does not fit."""
    instructions: Instructions
    tools: Sequence[Tool]
    workspace: Workspace
    policy: Policy
    recorder: Recorder
    archive: Archive | None = None
    """What left the view; None where nothing is kept apart."""
    recall: Recall | None = None
    """What may be looked up of everything that was said."""
    shelf: Shelf | None = None
    """All of that, to look through."""
    offloading: Offloading = Offloading()  # noqa: RUF009  # a frozen value
    unlisted: Sequence[Tool] = ()
    """Tools that the model is not told of, but that it may call."""
    limits: Limits = Limits()  # noqa: RUF009  # a frozen value
    compacting: Compacting = Compacting()  # noqa: RUF009  # a frozen value
    summarisers: Summarisers | None = None
    """The models that the user set for summaries."""
    lessons: Lessons = field(default_factory=Lessons)
    """What the session has learnt about its model's window."""
    after_tool: Sequence[AfterTool] = ()
    """The user's programs that see outputs as they came."""
    effort: str | None = None
    retries: Retries = field(default_factory=Retries)
    """How a request that fails is tried again."""
    debug: Debug = field(default_factory=Debug)
    surroundings: Callable[[], Surroundings] = Surroundings
    """What the model is told besides the conversation when it changes; at the start its system text says it."""
    note_at: float = 0.80
    """Share of the usable window at which the model is told how full it is."""
    interactive: bool = True
    """Whether somebody is there to answer questions."""
    meter: Meter = field(default_factory=Meter)
    rent: Rent = field(default_factory=Rent)
    """What decides when a view is rewritten that would still fit."""
    deferral: Deferral = field(default_factory=Deferral)
    """Which of the tools are held back."""
    served: Served = field(default_factory=Served)
    """The tools that servers bring besides."""
    servers: Servers | None = None
    now: Callable[[], float] = time.monotonic
    """Seconds on the clock by which caches grow cold."""
    earlier: Callable[[], Awaitable[Sequence[ToolCall]]] = nothing_earlier
    """The newest calls of the project's sessions, to try rules on."""
    files: FileLog | None = None
    """What was in the files that the session changed."""
    rules: ProjectRules | None = None
    """What the user allows in the project; None where nobody is there to allow something."""
    kept_here: list[Rule] = field(default_factory=list)
    """What the user allows in the session, until the program is left."""
    notices: tuple[str, ...] = ()
    """What the user should know before the first turn."""
