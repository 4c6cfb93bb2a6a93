"""What a session is made of, as its steps see it. It does nothing itself."""

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

if TYPE_CHECKING:  # types only: few sessions have hooks
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.extensions.session_trust import SessionTrust
    from ebbtide.agent.hooks.session_hooks import SessionHooks


class Servers(Protocol):
    """What brings tools into a session."""

    async def settle(self, *, first: bool) -> None:
        """At the start of a turn: asks the user what has to be asked, and tells what has to be told. `first`: no
        request was sent yet, so it waits a while for servers that start."""

    async def expand_mentions(self, said: User) -> User:
        """What the user said, with the prompts and resources of servers that it names. Raises `UsageError`."""


class Agents(Protocol):
    """The agents that a session has sent off."""

    @property
    def running(self) -> Sequence[RunningAgent]:
        """Those that are not done, the oldest first."""

    @property
    def descriptions(self) -> Mapping[str, str]:
        """What each that may be sent off now is for, by its name."""

    def stop(self, call: str, /) -> None:
        """Ends the one of a call soon: it hands back what it has. One that still waits does not begin."""

    def watch(self, changed: Callable[[], None] | None, /) -> None:
        """`changed` is called when something about them is otherwise, until somebody else watches."""


class InstructionUpdates(Protocol):
    """What a session's model has been told of instruction files since its system text was made."""

    def add_to(self, message: User, conversation: Conversation, env: "SessionContext", /) -> User:
        """The message with what is to be told with it."""

    def refresh(self, path: str, /) -> None:
        """Takes a file as it is now for known."""


@dataclass(frozen=True, slots=True)
class SessionContext:
    """What a step works with. Whatever a session has besides its conversation is a field here."""

    targets: Targets
    """The model that is asked, and those that may follow it."""
    instructions: Instructions
    own_tools: tuple[ToolSpec, ...]
    """Those that the session has whatever servers do."""
    call_runner: CallRunner
    recorder: Recorder
    interrupt: Interrupt
    emit: Callable[[Event], None]
    limits: TurnLimits = TurnLimits()
    allowance: Allowance = field(default_factory=Allowance)
    """What the turn may still take of them."""
    compacting: CompactionSettings = CompactionSettings()
    summarisers: SummariserSource | None = None
    """The models that the user set for summaries."""
    learned_limits: LearnedLimits = field(default_factory=LearnedLimits)
    """What the session has learnt about its model's window."""
    effort: str | None = None
    retries: Retries = field(default_factory=Retries)
    """How a request that fails is tried again."""
    debug: Debug = field(default_factory=Debug)
    meter: Meter = field(default_factory=Meter)
    """What is known of the size of requests."""
    view: View = field(default_factory=View)
    """What the conversation shows, kept from request to request."""
    watch: PrefixWatch = field(default_factory=PrefixWatch)
    carrying_cost: CarryingCost = field(default_factory=CarryingCost)
    """What was paid for what could have left the view: it decides when one is rewritten that would still fit."""
    reminders: Reminders = field(default_factory=Reminders)
    instruction_updates: InstructionUpdates | None = None
    """None where none of it is told."""
    deferral: Deferral = field(default_factory=Deferral)
    """Which of the tools are held back."""
    server_tools: ServerTools = field(default_factory=ServerTools)
    """The tools of servers."""
    servers: Servers | None = None
    trust: "SessionTrust | None" = None
    """What of the project may be used; None where it brings nothing."""
    extensions: "SessionExtensions | None" = None
    """The user's and the project's commands and skills; None where there are none."""
    hooks: "SessionHooks | None" = None
    """Programs that are told what happens; None where there are none."""
    archive: SessionArchive | None = None
    """What left the view, to look up and to look through; None where nothing is kept."""
    checkpoints: SessionCheckpoints | None = None
    """Files as they were before the session changed them; None where none are kept."""
    languages: SessionLanguages | None = None
    """Its language servers, which its agents have in common with it."""
    agents: Agents | None = None
    """None where there can be none."""
    pending_messages: Callable[[], Sequence[User]] = tuple
    """Takes what the user has said while the turn runs."""

    @property
    def provider(self) -> Provider:
        return self.targets.provider

    @property
    def encoded_calibration(self) -> str:
        """What is known of how the model counts, and where it has answered, as it is kept for other sessions."""
        facts = self.provider.facts
        return self.meter.serialise(facts.server if facts.id in self.retries.reached else "")

    @property
    def cost_so_far(self) -> float:
        """US dollars since the program was started."""
        return self.recorder.spent_here.cost or 0.0

    @property
    def tools(self) -> tuple[ToolSpec, ...]:
        """All that the model's list holds or that is held back from it. They stay the same until `choose_tools`."""
        return (*self.own_tools, *self.server_tools.specs)

    @property
    def offered_tools(self) -> tuple[ToolSpec, ...]:
        """The model's list."""
        return self.deferral.offered_tools(self.tools)
