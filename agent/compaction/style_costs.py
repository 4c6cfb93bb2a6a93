"""Estimates what a session would have cost in each context style, and what it would have missed. No I/O.

The session's log is replayed once per style: the rewrites are decided as in a session, each request is priced by the
prefix that it shares with the one before, and a placeholder replaces the summary that a model would have written. The
replies are those of the log, so the figures are estimates. The style that the session used has cost what was recorded;
the other estimates are scaled by the same ratio.

A *regret* is an output that a style had masked or summarised when a later reply or call named something that was left
in no visible text. Each output counts at most once until the next rewrite.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

from ebbtide.agent.budget.prices import Prices, UnitPrices, unit_prices
from ebbtide.agent.budget.request_budget import ContextBudget, Window
from ebbtide.agent.compaction.carried_outputs import carried_outputs, list_dropped_outputs
from ebbtide.agent.compaction.plan import tail_start
from ebbtide.agent.config.options import CONTEXT_STYLES, ContextStyle
from ebbtide.agent.eviction.carrying_costs import (
    MAX_REFETCHED_TOKENS,
    REFETCH_CALL_TOKENS,
    SUMMARY_PROMPT_TOKENS,
    CarryingCosts,
    CarryingCostTracker,
    RewriteDecision,
    compaction_offer,
    mask_by_keys,
    old_maskable_items,
)
from ebbtide.agent.eviction.inventory import strings_in
from ebbtide.agent.eviction.settings import CompactionSettings, patience_for_style
from ebbtide.agent.messages import Assistant, Conversation, Message, Text, ToolOutput, Usage, User
from ebbtide.agent.tokens.estimate import estimate_message, estimate_output, estimate_text
from ebbtide.agent.view.items import view_after_cut
from ebbtide.agent.view.name_index import find_names
from ebbtide.agent.view.stub_identifiers import names_in_output
from ebbtide.agent.view.visible import is_user_command, numbered_outputs, output_stub
from ebbtide.agent.window.overview import MESSAGE_COMPONENTS, Overview, total_cost

MAX_REPLAYED_MESSAGES = 1_000
"""Maximum number of messages that are replayed, the newest ones, so that it takes less than a second."""
MAX_DECISIONS = 400
"""Maximum number of requests of a replay before which a rewrite is decided. In a longer session, only every second
request is, or every third, and so on."""
MIN_REQUESTS_BETWEEN_SUMMARIES = 5
"""Minimum number of requests from one summary to the next, as in a session."""
_SAMPLE_SIZE = 100
"""Number of messages from which the ratio of actual to estimated tokens is determined."""
_CONVERSATION_COMPONENTS = (*MESSAGE_COMPONENTS, "retain", "summary")
"""The components of a request that rewrites change."""


@dataclass(frozen=True, slots=True)
class ReplayLog:
    """The end of a session's log, and the setup of its requests."""

    messages: tuple[Message, ...]
    """The newest messages, including those that have left the view. None of them is empty."""
    times: tuple[float, ...]
    """When each message was stored, in Unix seconds."""
    window: Window
    fixed_tokens: int
    """Tokens of the system prompt and the tools."""
    prices: UnitPrices
    cache_ttl: float
    """Seconds for which the provider keeps a cached prefix."""
    settings: CompactionSettings
    """The settings, with the patience of the balanced style."""
    token_ratio: float = 1.0
    """Actual tokens of the messages per estimated token."""


def create_replay_log(
    messages: Sequence[tuple[Message, float]],
    overview: Overview,
    settings: CompactionSettings,
    prices: Prices | None,
    cache_ttl: float,
    estimate_tokens: Callable[[Message], int],
) -> ReplayLog:
    """Create the log of a session. `messages`: the newest messages, each with its time. `estimate_tokens`: estimates a
    message for the session's model."""
    rows = [(message, at) for message, at in messages if message.parts]
    sample = [message for message, _ in rows[-_SAMPLE_SIZE:]]
    fixed_tokens = sum(part.tokens for part in overview.components if part.name not in _CONVERSATION_COMPONENTS)
    return ReplayLog(
        tuple(message for message, _ in rows),
        tuple(at for _, at in rows),
        Window(overview.effective, 0, 0),
        fixed_tokens,
        unit_prices(prices),
        cache_ttl,
        settings,
        sum(map(estimate_tokens, sample)) / max(sum(map(estimate_message, sample)), 1) or 1.0,
    )


@dataclass(frozen=True, slots=True)
class ReplayedStyle:
    """What the requests of a log would have cost in one style."""

    usage: Usage = Usage()  # noqa: RUF009  # a frozen value
    cost: float = 0.0
    """In tokens of fresh input, including the cost of retrieving each regretted output."""
    regrets: int = 0
    rewrites: int = 0


@dataclass(frozen=True, slots=True)
class StyleCost:
    """What a session has cost, or would have cost, in one style."""

    style: ContextStyle
    dollars: float | None
    """None if prices are unknown."""
    tokens: int
    """Tokens of all requests and replies."""
    regrets: int


@dataclass(frozen=True, slots=True)
class StyleCosts:
    """What a session would have cost in each style."""

    active: ContextStyle
    """The style that applies now."""
    recorded: ContextStyle
    """The style in which the session has run, and whose cost was therefore recorded."""
    styles: tuple[StyleCost, ...]
    """Empty if the session's rewrites do not depend on the style."""
    replayed_count: int = 0
    """Number of messages from which the estimates are made, the newest ones."""
    message_count: int = 0
    """Number of messages in the session."""


def compare_styles(
    replays: Mapping[ContextStyle, ReplayedStyle], recorded: ContextStyle, tokens: int, dollars: float | None
) -> tuple[StyleCost, ...]:
    """Scale the replays of all styles so that the one in which the session has run costs what was recorded. `tokens`
    and `dollars`: the recorded cost of the session; `dollars` is None if a price is unknown."""
    reference = replays[recorded]

    def scale(cost: float, replayed: float, reference_replayed: float) -> float:
        return cost * replayed / reference_replayed if reference_replayed else cost

    return tuple(
        StyleCost(
            style,
            None if dollars is None else scale(dollars, replay.cost, reference.cost),
            round(scale(tokens, replay.usage.total, reference.usage.total)),
            replay.regrets,
        )
        for style, replay in replays.items()
    )


def estimate_style_costs(
    log: ReplayLog, overview: Overview, active: ContextStyle, recorded: ContextStyle, message_count: int
) -> StyleCosts:
    """Estimate what a session would have cost in each style. `message_count`: number of messages in the session."""
    if log.settings.policy != "cost":
        return StyleCosts(active, recorded, ())
    tokens = sum(request.usage.total for request in overview.requests)
    styles = compare_styles(replay_styles(log), recorded, tokens, total_cost(overview.requests))
    return StyleCosts(active, recorded, styles, len(log.messages), message_count)


def replay_styles(log: ReplayLog) -> Mapping[ContextStyle, ReplayedStyle]:
    """Replay the log once per style."""
    index = index_log(log.messages)
    return {style: replay_style(log, style, index) for style in CONTEXT_STYLES}


@dataclass(frozen=True, slots=True)
class UsedName:
    """A name that a reply uses and that occurs in earlier outputs."""

    name: str
    outputs: tuple[int, ...]
    """Indexes of the earlier outputs that contain it, oldest first."""
    last_mention: int
    """Position of the last earlier message with the name outside outputs; -1 if there is none."""


@dataclass(frozen=True, slots=True)
class LogIndex:
    """What the replays of a log have in common."""

    cumulative_tokens: tuple[int, ...]
    """Estimated tokens of the messages before each position; the last entry is the total."""
    outputs: tuple[ToolOutput, ...]
    """All outputs. The first is `r1`."""
    positions: tuple[int, ...]
    """The position of the message that contains each output."""
    used_names: Mapping[int, tuple[UsedName, ...]]
    """What each reply names, by its position."""


def index_log(messages: Sequence[Message]) -> LogIndex:
    """Measure the messages, and find what each reply names that an earlier output contains."""
    outputs, positions, used_names = list[ToolOutput](), list[int](), dict[int, tuple[UsedName, ...]]()
    outputs_by_name, mentions = dict[str, tuple[int, ...]](), dict[str, int]()
    for position, message in enumerate(messages):
        names = frozenset().union(*map(find_names, _texts_outside_outputs(message)))
        if _is_reply(message) and not names.isdisjoint(outputs_by_name):
            used_names[position] = tuple(
                UsedName(name, outputs_by_name[name], mentions.get(name, -1))
                for name in sorted(names)
                if name in outputs_by_name
            )
        mentions.update(dict.fromkeys(names, position))
        for output in message.outputs if isinstance(message, User) else ():
            for name in names_in_output(output):
                outputs_by_name[name] = (*outputs_by_name.get(name, ()), len(outputs))
            outputs.append(output)
            positions.append(position)
    cumulative_tokens = tuple(accumulate(map(estimate_message, messages), initial=0))
    return LogIndex(cumulative_tokens, tuple(outputs), tuple(positions), used_names)


def _texts_outside_outputs(message: Message) -> Iterator[str]:
    """Yield the text of a message and all strings in the arguments of its calls."""
    yield message.text
    if isinstance(message, Assistant):
        for call in message.calls:
            yield from strings_in(call.arguments)


def _is_reply(message: Message) -> bool:
    return isinstance(message, Assistant) and not is_user_command(message)


def replay_style(log: ReplayLog, style: ContextStyle, index: LogIndex) -> ReplayedStyle:
    """Replay the log in one style."""
    settings = replace(log.settings, patience=patience_for_style(style, log.settings.patience))
    decision_interval = max(-(-sum(map(_is_reply, log.messages)) // MAX_DECISIONS), 1)
    replay = _Replay(log, index, settings, decision_interval)
    for position, message in enumerate(log.messages):
        if _is_reply(message):
            replay.send_request(position)
        replay.conversation = replay.conversation.plus(message)
    return ReplayedStyle(replay.usage, replay.cost, replay.regret_count, replay.rewrite_count)


@dataclass(slots=True)
class _Replay:
    """A replay of a log in one style, up to some message."""

    log: ReplayLog
    index: LogIndex
    settings: CompactionSettings
    decision_interval: int
    """Number of requests from one decision to the next."""
    conversation: Conversation = field(default_factory=Conversation)
    usage: Usage = field(default_factory=Usage)
    cost: float = 0.0
    regret_count: int = 0
    rewrite_count: int = 0
    _tracker: CarryingCostTracker = field(default_factory=CarryingCostTracker)
    _summary_tokens: int = 0
    """Estimated tokens of what a summary has left in view of earlier messages."""
    _freed_tokens: dict[int, int] = field(default_factory=dict)
    """Estimated tokens that masking has removed from messages in view, by position."""
    _cached_tokens: float = 0.0
    """Tokens at the start of the next request that are the same as in the last one."""
    _last_request_time: float | None = None
    _requests_to_decision: int = 1
    _requests_since_summary: int = MIN_REQUESTS_BETWEEN_SUMMARIES
    _visible_outputs: set[int] = field(default_factory=set)
    """Outputs that are visible again since the last rewrite because they were regretted, or in spite of a summary."""
    _stub_names: dict[int, frozenset[str]] = field(default_factory=dict)
    """Names in the lines that replace masked outputs, by output."""
    _summary_names: frozenset[str] = frozenset()
    """Names listed next to the summary."""

    def send_request(self, position: int) -> None:
        """Send the request that the reply at this position answers."""
        sent_at, replied_at = self.log.times[max(position - 1, 0)], self.log.times[position]
        is_cold = self._last_request_time is None or sent_at - self._last_request_time > self.log.cache_ttl
        self._rewrite_if_due(position, is_cold=is_cold)
        tokens = self._request_tokens(position)
        read = 0.0 if is_cold else min(self._cached_tokens, tokens)
        self._bill(read, tokens - read, self._reply_tokens(position))
        self._cached_tokens, self._last_request_time = tokens, replied_at
        for output_index in self._regretted_outputs(position):
            self.regret_count += 1
            # A recall is one more request, which adds the output to the conversation.
            fetched_tokens = min(estimate_output(self.index.outputs[output_index]), MAX_REFETCHED_TOKENS)
            self._bill(tokens, fetched_tokens, REFETCH_CALL_TOKENS)

    def _request_tokens(self, position: int) -> float:
        """Return the tokens of a request with all messages before a position."""
        tokens_before = self.index.cumulative_tokens
        message_tokens = tokens_before[position] - tokens_before[self.conversation.messages_before]
        freed_tokens = sum(freed for freed_at, freed in self._freed_tokens.items() if freed_at < position)
        return self.log.fixed_tokens + self.log.token_ratio * (self._summary_tokens + message_tokens - freed_tokens)

    def _reply_tokens(self, position: int) -> float:
        return self.log.token_ratio * estimate_message(self.log.messages[position])

    def _bill(self, read: float, written: float, output: float) -> None:
        prices = self.log.prices
        self.usage += Usage(0, round(read), round(written), round(output))
        self.cost += prices.read * read + prices.write * written + prices.output * output

    # Rewrites

    def _rewrite_if_due(self, position: int, *, is_cold: bool) -> None:
        budget = self._budget(position)
        is_cooling_down = self._requests_since_summary < MIN_REQUESTS_BETWEEN_SUMMARIES
        self._requests_to_decision, self._requests_since_summary = (
            self._requests_to_decision - 1,
            self._requests_since_summary + 1,
        )
        if budget.verdict != "fits":
            self._make_room(position, writes_summary=not is_cooling_down)
        elif is_cold or self._requests_to_decision <= 0:
            self._requests_to_decision = self.decision_interval
            decision = self._tracker.decide(
                self.conversation, budget, self.log.prices, self.settings, is_cold=is_cold, masks_only=is_cooling_down
            )
            match decision.action:
                case "mask":
                    self._mask(decision.offer.keys)
                case "compact":
                    self._compact(position, writes_summary=True)
                case "nothing":
                    self._carry_until_next_decision(decision, budget)

    def _budget(self, position: int) -> ContextBudget:
        history_tokens = round(self._request_tokens(position)) - self.log.fixed_tokens
        return ContextBudget(self.log.window, system=self.log.fixed_tokens, history=history_tokens)

    def _make_room(self, position: int, *, writes_summary: bool) -> None:
        """Mask old outputs because the window is full. If that is not enough, compact."""
        if self.settings.on_full != "compact":
            return  # the turn ends with a report
        caps = self.settings.caps
        items = old_maskable_items(self.conversation, caps.protected_output_tokens, caps.protected_message_count)
        self._tracker.reset()
        self._mask(frozenset(item.key for item in items))
        if self._budget(position).verdict != "fits":
            self._compact(position, writes_summary=writes_summary)

    def _carry_until_next_decision(self, decision: RewriteDecision, budget: ContextBudget) -> None:
        """Add the carrying costs of the requests that are sent without a decision."""
        factor = self.log.prices.read * (self.decision_interval - 1)
        compaction = compaction_offer(self.settings.caps, budget.used, self.log.fixed_tokens, self.log.prices)
        self._tracker.costs = CarryingCosts(
            self._tracker.costs.mask + factor * decision.offer.removed_tokens,
            self._tracker.costs.compact + factor * compaction.removed_tokens,
        )

    def _mask(self, keys: frozenset[str]) -> None:
        masked = mask_by_keys(self.conversation, keys)
        if masked is self.conversation:
            return
        changed_positions = list[int]()
        for numbered in numbered_outputs(self.conversation):
            call_id = numbered.output.call_id
            if call_id in masked.masked and call_id not in self.conversation.masked:
                stub = output_stub(numbered)
                self._stub_names[numbered.number - 1] = find_names(stub)
                freed_tokens = estimate_output(numbered.output) - estimate_text(stub)
                changed_positions.append(self._free(self.index.positions[numbered.number - 1], freed_tokens))
        known_keys = {part.key for part in self.conversation.retold}
        for part in masked.retold:
            if part.key not in known_keys:
                position = int(part.key.removeprefix("m"))
                freed_tokens = estimate_text(self.log.messages[position].text) - estimate_text(part.text)
                changed_positions.append(self._free(position, freed_tokens))
        self.conversation = masked
        self._begin_view(self._request_tokens(min(changed_positions)))

    def _free(self, position: int, tokens: int) -> int:
        """Record what masking has removed from a message, and return its position."""
        self._freed_tokens[position] = self._freed_tokens.get(position, 0) + tokens
        return position

    def _compact(self, position: int, *, writes_summary: bool) -> None:
        """Replace older messages with a placeholder of the size of a summary. `writes_summary`: the session's model
        writes the summary; otherwise, facts collected without a model replace the messages."""
        caps, conversation = self.settings.caps, self.conversation
        self._tracker.reset()
        cut = tail_start(conversation, caps.tail, 1, caps.max_tail_turns)
        if not cut:
            return
        if writes_summary:
            self._requests_since_summary = 0
            self._bill(self._request_tokens(position), SUMMARY_PROMPT_TOKENS, caps.summary)
        files = carried_outputs(conversation, cut, caps.carried_output_tokens)
        texts = [part.text for file in files for part in file.parts if isinstance(part, Text)]
        refs = frozenset(file.ref for file in files)
        names = list_dropped_outputs(conversation, cut, caps.output_name_tokens, refs, "\n".join(texts))
        self.conversation = view_after_cut(conversation, cut)
        self._summary_tokens = caps.summary + sum(map(estimate_text, (*texts, names)))
        start = self.conversation.messages_before
        self._freed_tokens = {freed_at: freed for freed_at, freed in self._freed_tokens.items() if freed_at >= start}
        self._summary_names = find_names(names)
        self._begin_view(self.log.fixed_tokens, frozenset(int(file.key.removeprefix("r")) - 1 for file in files))

    def _begin_view(self, cached_tokens: float, visible_outputs: frozenset[int] = frozenset()) -> None:
        """Begin a view of which this many tokens at the start are still cached. `visible_outputs`: outputs that it
        shows although their messages have left."""
        self._cached_tokens = cached_tokens
        self._visible_outputs = set(visible_outputs)
        self.rewrite_count += 1

    # Regrets

    def _regretted_outputs(self, position: int) -> Iterator[int]:
        """Yield the outputs that the reply at this position would have needed. They are visible from then on."""
        for used in self.index.used_names.get(position, ()) if self.rewrite_count else ():
            if (
                used.last_mention < self.conversation.messages_before
                and used.name not in self._summary_names
                and not any(self._shows(output_index, used.name) for output_index in used.outputs)
            ):
                self._visible_outputs.add(used.outputs[-1])
                yield used.outputs[-1]

    def _shows(self, output_index: int, name: str) -> bool:
        """Whether an output that contains a name is in view, or only its line, with the name."""
        if output_index in self._visible_outputs:
            return True
        if self.index.positions[output_index] < self.conversation.messages_before:
            return False
        is_masked = self.index.outputs[output_index].call_id in self.conversation.masked
        return not is_masked or name in self._stub_names[output_index]
