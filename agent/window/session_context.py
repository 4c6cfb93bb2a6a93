"""The parts of a session, as its steps see them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from ebbtide.agent.archive.session_archive import SessionArchive
from ebbtide.agent.calls.execute import CallRunner
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.checkpoints.session_checkpoints import SessionCheckpoints
from ebbtide.agent.context.prompt import Instructions
from ebbtide.agent.context.settings import CompactionSettings
from ebbtide.agent.context.tool_selection import ToolSpec
from ebbtide.agent.context.view import View
from ebbtide.agent.debug import Debug
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.subagents import RunningAgent
from ebbtide.agent.lsp.session_languages import SessionLanguages
from ebbtide.agent.messages import Conversation, User
from ebbtide.agent.providers.base import Provider
from ebbtide.agent.providers.fallbacks import Targets
from ebbtide.agent.providers.learned_limits import LearnedLimits, SummariserSource
from ebbtide.agent.providers.meter import Meter
from ebbtide.agent.providers.stream import Retries
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.window.carrying_cost import CarryingCost
from ebbtide.agent.window.deferral import Deferral
from ebbtide.agent.window.prefix_watch import PrefixWatch
from ebbtide.agent.window.reminders import Reminders
from ebbtide.agent.window.server_tools import ServerTools
from ebbtide.agent.window.turn_limits import Allowance, TurnLimits
from ebbtide.tools.lazy import dataclass

if TYPE_CHECKING:  # types only: few sessions have these
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.extensions.session_trust import SessionTrust
    from ebbtide.agent.hooks.session_hooks import SessionHooks


class Servers(Protocol):
    """The MCP servers of a session."""

    async def settle(self, *, first: bool) -> None:
        """At the start of a turn: ask the user pending questions and emit pending notices. `first`: no request was sent
        yet, so wait a while for servers that are starting."""

    async def expand_mentions(self, said: User) -> User:
        """Return the message with the server prompts and resources that it mentions. Raises `UsageError`."""


class Agents(Protocol):
    """The sub-agents of a session."""

    @property
    def running(self) -> Sequence[RunningAgent]:
        """The running agents, the oldest first."""

    @property
    def descriptions(self) -> Mapping[str, str]:
        """Descriptions of the agents that can be started now, by name."""

    def stop(self, call: str, /) -> None:
        """Stop the agent of a call soon: it hands back what it has. One that is still queued does not start."""

    def watch(self, changed: Callable[[], None] | None, /) -> None:
        """Call `changed` on every update; replaces any earlier watcher."""


class InstructionUpdates(Protocol):
    """Instruction files that the model has been given since its system prompt was built."""

    def add_to(self, message: User, conversation: Conversation, env: "SessionContext", /) -> User:
        """Return the message with the instructions that are due."""

    def refresh(self, path: str, /) -> None:
        """Treat the current content of a file as known."""


@dataclass(frozen=True, slots=True)
class SessionContext:
    """Everything a step works with, apart from the conversation."""

    targets: Targets
    """The current model and its fallbacks."""
    instructions: Instructions
    own_tools: tuple[ToolSpec, ...]
    """Tools other than those of servers."""
    call_runner: CallRunner
    recorder: Recorder
    interrupt: Interrupt
    emit: Callable[[Event], None]
    limits: TurnLimits = TurnLimits()
    allowance: Allowance = field(default_factory=Allowance)
    """What is left of the limits in this turn."""
    compacting: CompactionSettings = CompactionSettings()
    summarisers: SummariserSource | None = None
    """The models that the user set for summaries."""
    learned_limits: LearnedLimits = field(default_factory=LearnedLimits)
    """What the session has learned about its model's window."""
    effort: str | None = None
    retries: Retries = field(default_factory=Retries)
    """How failed requests are retried."""
    debug: Debug = field(default_factory=Debug)
    meter: Meter = field(default_factory=Meter)
    """Measures requests."""
    view: View = field(default_factory=View)
    """The model's view of the conversation, cached between requests."""
    watch: PrefixWatch = field(default_factory=PrefixWatch)
    carrying_cost: CarryingCost = field(default_factory=CarryingCost)
    """Accumulated cost of removable content: decides when a view that would still fit is rewritten."""
    reminders: Reminders = field(default_factory=Reminders)
    instruction_updates: InstructionUpdates | None = None
    """None if updates are not announced."""
    deferral: Deferral = field(default_factory=Deferral)
    """Which tools are deferred."""
    server_tools: ServerTools = field(default_factory=ServerTools)
    """The tools of servers."""
    servers: Servers | None = None
    trust: "SessionTrust | None" = None
    """Trust state of the project; None if it has nothing that needs trust."""
    extensions: "SessionExtensions | None" = None
    """The user's and the project's commands and skills; None if there are none."""
    hooks: "SessionHooks | None" = None
    """The configured hooks; None if there are none."""
    archive: SessionArchive | None = None
    """Stored content, to recall and browse; None if the session is not stored."""
    checkpoints: SessionCheckpoints | None = None
    """Checkpoints of changed files; None if there are none."""
    languages: SessionLanguages | None = None
    """Language servers, shared with its sub-agents."""
    agents: Agents | None = None
    """None if sub-agents are not available."""
    pending_messages: Callable[[], Sequence[User]] = tuple
    """Returns what the user has sent while the turn runs."""

    @property
    def provider(self) -> Provider:
        return self.targets.provider

    @property
    def encoded_calibration(self) -> str:
        """The model's token calibration and the server that answered, in stored form."""
        facts = self.provider.facts
        return self.meter.serialise(facts.server if facts.id in self.retries.reached else "")

    @property
    def cost_so_far(self) -> float:
        """US dollars since the program was started."""
        return self.recorder.spent_here.cost or 0.0

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """All tools, listed or deferred. They stay the same until `choose_tools`."""
        return (*self.own_tools, *self.server_tools.specs)

    @property
    def offered_tools(self) -> tuple[ToolSpec, ...]:
        """The tools listed for the model."""
        return self.deferral.offered_tools(self.tools)
