"""The parts of a session, grouped into five contexts, so that a function takes only what it needs.

A window belongs to a model, so a `WindowContext` contains a `ModelContext`. A turn is recorded, so a `TurnContext`
contains a `RecordContext`.
"""

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from ebbtide.agent.archive.session_archive import SessionArchive
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.calls.execute import CallRunner
from ebbtide.agent.channel import Interrupt
from ebbtide.agent.checkpoints.session_checkpoints import SessionCheckpoints
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.subagents import RunningAgent
from ebbtide.agent.eviction.carrying_costs import CarryingCostTracker
from ebbtide.agent.eviction.settings import CompactionSettings, StyleChoice
from ebbtide.agent.logs.debug_log import DebugLog
from ebbtide.agent.messages import Conversation, User
from ebbtide.agent.prompt.build import Instructions
from ebbtide.agent.prompt.view_cache import ViewCache
from ebbtide.agent.providers.base import ModelFacts, Provider
from ebbtide.agent.providers.fallbacks import SessionModels
from ebbtide.agent.providers.learned_limits import LearnedLimits, SummariserSource
from ebbtide.agent.providers.stream import RetryPolicy
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.records.recorder import Recorder
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.window.deferral import ToolDeferral
from ebbtide.agent.window.prefix_watch import PrefixWatch
from ebbtide.agent.window.reminders import Reminders
from ebbtide.agent.window.server_tools import ServerTools
from ebbtide.agent.window.turn_limits import TurnLimits, TurnUsage
from ebbtide.tools.base import AppliedChange
from ebbtide.tools.lazy import dataclass
from ebbtide.tools.outputs.new_problems import NewProblems

if TYPE_CHECKING:  # types only: few sessions have these
    from ebbtide.agent.extensions.session_extensions import SessionExtensions
    from ebbtide.agent.extensions.session_trust import SessionTrust
    from ebbtide.agent.extensions.trust import TrustItem
    from ebbtide.agent.hooks.session_hooks import SessionHooks


class ServerPrompt(Protocol):
    """A prompt of an MCP server that the user can send."""

    @property
    def command(self) -> str:
        """The prompt's command without the slash: `mcp__SERVER__PROMPT`."""

    @property
    def usage(self) -> str:
        """Placeholders for the prompt's arguments, as written after the command. Empty if it takes none."""

    @property
    def description(self) -> str: ...


class ServerSummary(Protocol):
    """An MCP server as front ends list it."""

    @property
    def name(self) -> str: ...

    @property
    def phase(self) -> str: ...

    @property
    def tool_count(self) -> int: ...

    @property
    def prompts(self) -> Sequence[ServerPrompt]: ...

    @property
    def resources(self) -> Sequence[str]:
        """URIs of the server's resources."""


class McpServers(Protocol):
    """The MCP servers of a session."""

    @property
    def entries(self) -> Mapping[str, object]:
        """The declared servers that can be used, by name."""

    def start(self, window: "WindowContext", turn: "TurnContext", /) -> None:
        """Start the approved servers in the background."""

    def statuses(self) -> Sequence[ServerSummary]:
        """The status of all servers. Called at every key press."""

    def set_watcher(self, on_change: Callable[[], None] | None, /) -> None:
        """Call `on_change` whenever a server's state changes. Replaces any earlier callback."""

    async def close(self) -> None: ...

    async def prepare_turn(self, *, is_first: bool) -> None:
        """Ask the user any pending questions from servers, and emit the servers' notices. Called at the start of a
        turn. `is_first`: no request has been sent yet, so wait a while for servers that are still starting."""

    async def expand_mentions(self, message: User) -> User:
        """Add the server prompts and resources that a message mentions. Raises `UsageError`."""


class LanguageService(Protocol):
    """The language servers of a working folder, shared with sub-agents. Nothing is loaded before it is needed."""

    def servers(self) -> object:
        """Return an object through which tools use the language servers. Starts no server."""

    def is_available_for(self, extensions: Container[str], /) -> bool:
        """Whether a server is probably available for files with one of these extensions."""

    @property
    def may_need_trust(self) -> bool:
        """Whether the user might have to trust language servers: the project contains one, or one could run the
        project's code without a sandbox."""

    def trust_items(self) -> "tuple[TrustItem, ...]":
        """Items to approve for language servers that handle the project's file types."""

    async def diagnose_changes(self, changes: Sequence[AppliedChange], /) -> NewProblems | None:
        """Return the new diagnostics caused by edits, for the model; None if there are none."""

    @property
    def states(self) -> Sequence[tuple[str, str]]:
        """The servers used so far, each with a description of its state."""

    async def close(self) -> None: ...


class SubAgents(Protocol):
    """The sub-agents of a session."""

    @property
    def running(self) -> Sequence[RunningAgent]:
        """The running agents, oldest first."""

    @property
    def descriptions(self) -> Mapping[str, str]:
        """Descriptions of the agents that can be started now, by name."""

    def stop(self, call: str, /) -> None:
        """Stop the agent that a call started. A running agent returns its results so far; a queued agent never
        starts."""

    def set_watcher(self, on_change: Callable[[], None] | None, /) -> None:
        """Call `on_change` on every update. Replaces any earlier callback."""


class InstructionUpdates(Protocol):
    """Instruction files that were shown to the model after its system prompt was built."""

    def add_instructions(
        self, message: User, conversation: Conversation, runner: CallRunner, window: "WindowContext", /
    ) -> User:
        """Add instruction files to a message if the model does not know them yet or they have changed."""

    def mark_known(self, path: str, /) -> None:
        """Record that the model knows the current content of a file."""


@dataclass(frozen=True, slots=True)
class ModelContext:
    """The model, and what is known about it."""

    models: SessionModels
    """The current model and its fallbacks."""
    cache_key: str = ""
    """Key for the provider's cache. All forks of a session share it, because their requests begin with the same
    content."""
    meter: TokenMeter = field(default_factory=TokenMeter)
    """Measures requests."""
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    """How failed requests are retried."""
    learned_limits: LearnedLimits = field(default_factory=LearnedLimits)
    """What the session has learned about its model's window."""
    effort: str | None = None

    @property
    def provider(self) -> Provider:
        return self.models.provider

    @property
    def facts(self) -> ModelFacts:
        return self.provider.facts

    @property
    def known_window(self) -> Window:
        """The model's window, or the smaller window that an overflow in this session has revealed."""
        return self.learned_limits.window or self.provider.window

    @property
    def encoded_calibration(self) -> str:
        """The model's token calibration and the server that answered, encoded for storage."""
        server = self.facts.server_digest if self.facts.id in self.retries.reached_models else ""
        return self.meter.serialise_estimates(server)


@dataclass(frozen=True, slots=True)
class SessionTools:
    """A session's tools, and which of them are offered to the model."""

    own_specs: tuple[ToolSpec, ...]
    """All tools except those of MCP servers."""
    server_tools: ServerTools = field(default_factory=ServerTools)
    """The tools of MCP servers."""
    deferral: ToolDeferral = field(default_factory=ToolDeferral)
    """Which tools are deferred."""

    @property
    def all_specs(self) -> tuple[ToolSpec, ...]:
        """All tools, listed or deferred. They do not change until `choose_tools` is called."""
        return (*self.own_specs, *self.server_tools.listed_specs)

    @property
    def offered_specs(self) -> tuple[ToolSpec, ...]:
        """The tools that the model is offered."""
        return self.deferral.offered_tools(self.all_specs)

    @property
    def available_specs(self) -> tuple[ToolSpec, ...]:
        """The tools from which the next call to `choose_tools` can choose, including new server tools."""
        return (*self.own_specs, *self.server_tools.available_specs)


@dataclass(frozen=True, slots=True)
class WindowContext:
    """The context window: what is needed to build, measure and shorten requests."""

    model: ModelContext
    instructions: Instructions
    tools: SessionTools
    view_cache: ViewCache = field(default_factory=ViewCache)
    """The model's view of the conversation, cached between requests."""
    prefix_watch: PrefixWatch = field(default_factory=PrefixWatch)
    compaction_settings: CompactionSettings = CompactionSettings()
    style: StyleChoice | None = None
    """The context style; None to use the patience in `compaction_settings` as it is."""
    carrying_cost_tracker: CarryingCostTracker = field(default_factory=CarryingCostTracker)
    """Decides when to rewrite a view that would still fit, based on the accumulated cost of carrying removable
    content."""
    summarisers: SummariserSource | None = None
    """The models that the user chose for summaries."""
    reminders: Reminders = field(default_factory=Reminders)
    instruction_updates: InstructionUpdates | None = None
    """Announces changes of instruction files to the model; None if they are not announced."""
    debug: DebugLog = field(default_factory=DebugLog)

    @property
    def rewrite_settings(self) -> CompactionSettings:
        """The compaction settings with the patience of the current style."""
        if self.style is None:
            return self.compaction_settings
        return self.style.apply(self.compaction_settings, self.model.known_window.available_tokens)


@dataclass(frozen=True, slots=True)
class CallContext:
    """What is needed to run the model's calls and expand the user's mentions."""

    runner: CallRunner
    servers: McpServers | None = None
    agents: SubAgents | None = None
    """The sub-agents; None if they are not available."""
    extensions: "SessionExtensions | None" = None
    """The user's and the project's commands and skills; None if there are none."""
    trust: "SessionTrust | None" = None
    """Trust state of the project; None if it has nothing that needs trust."""
    language_service: LanguageService | None = None

    @property
    def plan_ends_turn(self) -> bool:
        return self.runner.approver.plan_ends_turn


@dataclass(frozen=True, slots=True)
class RecordContext:
    """The parts that store a session."""

    recorder: Recorder
    archive: SessionArchive | None = None
    """Stored content, which can be recalled and browsed; None if the session is not stored."""
    checkpoints: SessionCheckpoints | None = None
    """Checkpoints of changed files; None if there are none."""


@dataclass(frozen=True, slots=True)
class TurnContext:
    """What is needed to run, record, report and end a turn."""

    records: RecordContext
    interrupt: Interrupt
    emit: Callable[[Event], None]
    limits: TurnLimits = TurnLimits()
    allowance: TurnUsage = field(default_factory=TurnUsage)
    """Counts how much of its limits the turn has used."""
    hooks: "SessionHooks | None" = None
    """The configured hooks; None if there are none."""
    get_pending_messages: Callable[[], Sequence[User]] = tuple
    """Returns messages that the user has sent while the turn is running."""

    @property
    def recorder(self) -> Recorder:
        return self.records.recorder

    @property
    def cost_so_far(self) -> float:
        """Cost since the program was started, in US dollars."""
        return self.recorder.events.usage_this_run.cost or 0.0


@dataclass(frozen=True, slots=True)
class SessionContext:
    """Everything a session works with, apart from the conversation."""

    window: WindowContext
    calls: CallContext
    turn: TurnContext

    @property
    def model(self) -> ModelContext:
        return self.window.model

    @property
    def records(self) -> RecordContext:
        return self.turn.records
