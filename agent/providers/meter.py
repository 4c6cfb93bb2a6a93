"""The token meter of a session: the estimates learned for its model, and the counters of the turn. The estimates can be
serialised as JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from ebbtide.agent.budget.preflight import Counters, settle_for_final_turn
from ebbtide.agent.budget.request_budget import BudgetSection, ContextBudget, Window, build_budget, count_summary
from ebbtide.agent.budget.server_truncation import (
    MIN_WINDOW_TOKENS,
    CountedRequest,
    CountRecord,
    assess_count,
    has_no_reply,
    min_tokens,
    truncation_notice,
)
from ebbtide.agent.events.session import Event, Noticed
from ebbtide.agent.messages import Conversation, Message, ProviderItem, Summary, Usage
from ebbtide.agent.prompt.build import Prompt
from ebbtide.agent.prompt.message_cache import ViewCache
from ebbtide.agent.providers.base import Reply
from ebbtide.agent.providers.usage import (
    carried_usage,
    counted_request,
    has_foreign_anchor,
    may_drop_reasoning,
    subtract_counts,
)
from ebbtide.agent.tokens.estimate import (
    Counts,
    Estimator,
    Ruler,
    count_message,
    count_messages,
    count_text,
    count_tools,
    encode_estimator,
    estimate_by_chars,
    is_plausible_count,
    sum_counts,
    tool_definitions_text,
    update_estimator,
)
from ebbtide.agent.tokens.incremental import IncrementalFold, is_prefix
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.tools.lazy import dataclass

CountReading: TypeAlias = Literal["counted", "missing", "nonsense", "fresh", "doubtful", "truncated"]
"""Whether a reported usage can be trusted. `fresh`: it covers only new content. `doubtful`: it was impossibly low once,
which is not yet treated as truncation."""

_MAX_CACHED_TEXTS = 64
"""Maximum number of cached text counts. The cached texts are sections of the system prompt."""


@dataclass(frozen=True, slots=True)
class _FullCount:
    """The provider's count of a whole request. Subtracting `counts_without_tools` from it gives the size of the tool
    definitions."""

    tools: tuple[ToolSpec, ...]
    counts_without_tools: Counts
    prompt_tokens: int


@dataclass(slots=True)
class _MessageCounts:
    """Accumulated counts of messages."""

    counts: Counts = field(default_factory=Counts)
    names: list[str] = field(default_factory=list)
    """Names of the tools found by the provider's search."""

    def plus(self, message: Message, ruler: Ruler) -> "_MessageCounts":
        self.counts += count_message(message, ruler)
        self.names += (name for part in message.parts if isinstance(part, ProviderItem) for name in part.tools)
        return self


class Meter:
    """The token meter of one session. `ruler` is replaced when a tokenizer has been loaded."""

    def __init__(
        self,
        estimator: Estimator | None = None,
        ruler: Ruler | None = None,
        load_tokenizer: Callable[["Meter"], None] | None = None,
    ) -> None:
        """`load_tokenizer`: starts loading a tokenizer in the background; `prepare` calls it."""
        self.estimator = estimator or Estimator()
        self.ruler = ruler or Ruler()
        self.counters = Counters()
        self.is_output_truncated = False
        """Whether an output of the last step was cut because space was short."""
        self._load_tokenizer = load_tokenizer
        self._scheduled_ruler: Ruler | None = None
        self._system_texts: tuple[str, ...] = ()
        self._text_counts: dict[str, Counts] = {}
        self._tool_counts: tuple[tuple[ToolSpec, ...], Counts] = ((), Counts())
        self._summary_counts: tuple[Summary, dict[BudgetSection, Counts]] = (Summary(), {})
        self._message_counts = self._create_message_counter()
        self._full_count: _FullCount | None = None
        self._restored_tools: tuple[tuple[ToolSpec, ...], int] = (), 0
        self._view_cache = ViewCache()
        self._reported_readings: set[CountReading] = set()
        self._previous_schema = 0
        self.count_record: CountRecord | None = None
        """History of the server's counts, with which new counts are compared; None before the first one."""
        self._visible_minimum: tuple[tuple[Message, ...], int] = ((), 0)
        """The messages of the last request, and the minimum number of tokens that they take."""
        self._real_window: int | None = None
        self.scale = 1.0
        """Ratio of counted to estimated tokens of messages, as of the last rewrite. Estimates of messages are
        multiplied by it until the provider has counted them."""

    def adopt(self, other: "Meter") -> None:
        """Adopt another meter's estimates and reset all counts. Used when switching to a model with a different
        tokenizer."""
        self.estimator, self.ruler, self._load_tokenizer = other.estimator, other.ruler, other._load_tokenizer
        self._scheduled_ruler, self._full_count, self._restored_tools = None, None, ((), 0)
        self._text_counts, self._tool_counts, self._message_counts = {}, ((), Counts()), self._create_message_counter()
        self._summary_counts = (Summary(), {})
        self._reported_readings = set()
        self.count_record, self._real_window, self.scale = None, None, 1.0
        self.reset_counters()
        self.prepare()

    def prepare(self) -> None:
        """Start loading a better tokenizer. Only the first call has an effect."""
        load, self._load_tokenizer = self._load_tokenizer, None
        if load is not None:
            load(self)

    def schedule_ruler(self, ruler: Ruler) -> None:
        """Use this ruler from the next measurement on. All known messages are counted with it first, so this must not
        be called on the event loop's thread."""
        for message in self._message_counts.processed_messages:
            count_message(message, ruler)
        self._scheduled_ruler = ruler

    def _apply_scheduled_ruler(self) -> None:
        ruler, self._scheduled_ruler = self._scheduled_ruler, None
        if ruler is not None:
            self.ruler = ruler
            self._text_counts, self._tool_counts, self._message_counts = (
                {},
                ((), Counts()),
                self._create_message_counter(),
            )
            self._summary_counts = (Summary(), {})
            self._full_count = None

    def measure(
        self,
        prompt: Prompt,
        conversation: Conversation,
        tools: tuple[ToolSpec, ...],
        window: Window,
        sections: Mapping[BudgetSection, str] | None = None,
    ) -> ContextBudget:
        """Return the budget of the next request. `tools`: the offered tools; deferred ones cost nothing until they are
        found. `sections`: parts of the system prompt that are displayed separately, and other text that precedes the
        messages."""
        self._apply_scheduled_ruler()
        counts = self._section_counts(prompt.system, conversation.summary, tools, sections or {})
        seen, unseen = self._seen_and_unseen(conversation)
        counted = conversation.anchor.total if conversation.anchor is not None else None
        scale = self.scale if counted is None else 1.0
        budget = build_budget(
            counts, seen, unseen, counted, window, self.estimator, self._known_tool_tokens(tools), scale
        )
        budget = replace(budget, is_crowded=self.is_output_truncated)
        self.counters = self.counters.with_measurement(budget, is_counted=counted is not None)
        return budget

    def message_tokens(self, message: Message) -> int:
        """Return the estimated tokens of a message."""
        return self.estimator.estimate(count_message(message, self.ruler))

    def _messages_tokens(self, messages: Sequence[Message]) -> int:
        return self.estimator.estimate(count_messages(messages, self.ruler))

    def text_tokens(self, text: str) -> int:
        """Return the estimated tokens of a text."""
        return self.estimator.estimate(count_text(text, self.ruler))

    def definition_tokens(self, spec: ToolSpec) -> int:
        """Return the estimated tokens of a tool definition."""
        return self.estimator.estimate(count_tools((spec,), self.ruler))

    @property
    def tool_tokens(self) -> int:
        """Estimated tokens of the tool definitions in the last measurement."""
        known_tokens = self._known_tool_tokens(self._tool_counts[0])
        return self.estimator.estimate(self._tool_counts[1]) if known_tokens is None else known_tokens

    def restore_tool_tokens(self, tools: tuple[ToolSpec, ...], tokens: int) -> None:
        """Use the token count that an earlier request gave for these definitions, until they are counted again."""
        self._restored_tools = tools, tokens

    def restore_counts(self, record: CountRecord | None, scale: float, *, is_prefix_unchanged: bool) -> None:
        """Restore the server's counts from an earlier run, and the scale for estimates of content not counted since
        then. `is_prefix_unchanged`: system prompt and tools are unchanged."""
        self.count_record = record if record is None or is_prefix_unchanged else record.after_rewrite()
        self.scale = scale

    def fresh_copy(self) -> "Meter":
        """Return an independent meter with the same estimates."""
        copy = Meter(self.estimator, self.ruler)
        known_tokens = self._known_tool_tokens(self._tool_counts[0])
        copy.restore_tool_tokens(
            *(self._restored_tools if known_tokens is None else (self._tool_counts[0], known_tokens))
        )
        copy.scale = self.scale
        return copy

    def update_scale(self, conversation: Conversation, budget: ContextBudget) -> None:
        """Compute the scale of later estimates from the provider's count of this conversation. `budget`: the
        conversation's budget."""
        if conversation.anchor is None:
            return
        summary = count_summary(conversation.summary, self.ruler).values()
        message_counts = self._create_message_counter().value_for(self._view_cache.visible_messages(conversation))
        estimated = self.estimator.estimate(
            sum_counts(summary) + message_counts.counts + self._found_tool_counts(message_counts.names)
        )
        counted = budget.history + budget.pending + budget.retain + budget.summary
        self.scale = min(max(counted / estimated, 0.25), 3.0) if estimated else 1.0

    def begin_turn(self, message: Message) -> int:
        """Start the counters of a turn with the user's message. Return its estimated tokens."""
        self.is_output_truncated = False
        tokens = self.message_tokens(message)
        self.counters = self.counters.at_turn_start(tokens)
        return tokens

    def enter_final_turn(self) -> None:
        """Switch the counters to the final turn, in which the model only writes a report."""
        self.counters = settle_for_final_turn(self.counters)

    def schema_scale(self, tools: Sequence[ToolSpec]) -> float | None:
        """Return the tokens of the tool definitions per four characters; None if their size has not changed since the
        last call."""
        schema, previous_schema = self.counters.schema, self._previous_schema
        self._previous_schema = schema
        return (
            None
            if schema == previous_schema
            else round(schema / max(estimate_by_chars(tool_definitions_text(tools)), 1), 3)
        )

    def end_turn(self, conversation: Conversation) -> None:
        """Update the counters at the end of a turn: use the provider's count, plus an estimate for messages that it has
        not counted."""
        if conversation.anchor is None:
            self.counters = self.counters.at_turn_end()
            return
        _, unseen = self._seen_and_unseen(conversation)
        self.counters = self.counters.at_turn_end(conversation.anchor.total + self.estimator.estimate(unseen))

    def reset_counters(self) -> None:
        """Reset the counters after a compaction, until the next measurement."""
        self.counters, self.is_output_truncated = Counters(reasoning=self.counters.reasoning), False
        self.count_record = self.count_record and self.count_record.after_rewrite()
        self._visible_minimum = (), 0

    def take_real_window(self) -> int | None:
        """Return the actual window of the server if it truncated the last counted request, and clear it; otherwise
        return None."""
        window, self._real_window = self._real_window, None
        return window

    def forget_truncation(self) -> None:
        """Report the next truncation again. Called when the server has read more than the window inferred from its
        counts."""
        self._reported_readings.discard("truncated")

    def anchor_reply(
        self,
        conversation: Conversation,
        reply: Reply,
        budget: ContextBudget,
        emit: Callable[[Event], None],
    ) -> Conversation:
        """Add the reply to the conversation, with the provider's count of the last measured request as its anchor. If
        that count is implausible, no anchor is set and nothing is learned."""
        answered = conversation.plus(reply.message)
        if reply.pass_count > 1:
            return answered  # a count of several passes covers more than one request
        reading = self._assess_usage(reply, conversation, budget)
        if reading != "counted":
            self._report_reading(reading, reply, budget, emit)
            return self._without_server_counts(answered) if reading == "truncated" else answered
        self._learn_from_usage(conversation, reply.usage, reply.message.model)
        return replace(answered, anchor=carried_usage(reply), anchored=len(answered.messages))

    def serialise_estimates(self, server: str = "") -> str:
        return encode_estimator(self.estimator, server)

    def _assess_usage(self, reply: Reply, conversation: Conversation, budget: ContextBudget) -> CountReading:
        """Return whether a reply's usage is plausible and covers everything that was sent, or what is wrong with it."""
        usage = reply.usage
        if min(usage.input, usage.cache_read, usage.cache_write, usage.output) < 0:
            return "nonsense"
        if usage.prompt == 0:
            return "missing"
        finding, self.count_record = assess_count(
            self._record_for(conversation, reply), self._sent_request(conversation, usage, budget)
        )
        if finding != "whole" and (finding == "fresh" or usage.prompt >= MIN_WINDOW_TOKENS):
            return finding
        return "counted" if finding == "whole" and is_plausible_count(usage.prompt, budget.used) else "nonsense"

    def _record_for(self, conversation: Conversation, reply: Reply) -> CountRecord:
        """Return the record to compare a count with. A resumed session starts with its last count, unless requests may
        have become shorter since then."""
        is_incomparable = has_foreign_anchor(conversation, reply.message.model) or may_drop_reasoning(conversation)
        if self.count_record is not None:
            return self.count_record.after_rewrite() if is_incomparable else self.count_record
        if conversation.anchor is None or is_incomparable:
            return CountRecord()
        counted_messages = self._view_cache.visible_messages(conversation)[: max(conversation.anchored - 1, 0)]
        return CountRecord().with_earlier_count(min_tokens(counted_messages), conversation.anchor.prompt)

    def _sent_request(self, conversation: Conversation, usage: Usage, budget: ContextBudget) -> CountedRequest:
        visible = self._view_cache.visible_messages(conversation)
        measured_messages, min_count = (
            self._visible_minimum if is_prefix(self._visible_minimum[0], visible) else ((), 0)
        )
        min_count += min_tokens(visible[len(measured_messages) :])
        self._visible_minimum = visible, min_count
        return counted_request(
            visible, min_count, usage.prompt, budget, self._messages_tokens, is_first=has_no_reply(conversation)
        )

    def _without_server_counts(self, conversation: Conversation) -> Conversation:
        """Discard all counts and estimates of a server that truncates, because earlier counts may also be wrong. The
        server's largest count becomes the actual window."""
        assert self.count_record is not None, "a finding comes with a record"
        self._real_window, self.count_record = self.count_record.window, CountRecord()
        self.estimator, self._full_count, self._restored_tools, self.scale = Estimator(), None, ((), 0), 1.0
        self.counters = Counters(reasoning=self.counters.reasoning)
        return replace(conversation, anchor=None, anchored=0)

    def _learn_from_usage(self, conversation: Conversation, usage: Usage, model: str) -> None:
        seen, unseen = self._seen_and_unseen(conversation)
        if conversation.anchor is None:
            text_counts = (
                *(self._cached_text_counts(text) for text in self._system_texts),
                *self._summary_counts[1].values(),
            )
            counts_without_tools = sum_counts(text_counts) + seen + unseen
            self._full_count = self._choose_more_precise(
                _FullCount(self._tool_counts[0], counts_without_tools, usage.prompt)
            )
            counts = counts_without_tools + self._tool_counts[1]
            self.estimator = update_estimator(self.estimator, counts, usage.prompt, usage.prompt, is_full_request=True)
        elif (
            unseen != Counts() and not has_foreign_anchor(conversation, model) and not may_drop_reasoning(conversation)
        ):
            reported = usage.prompt - conversation.anchor.total
            self.estimator = update_estimator(self.estimator, unseen, reported, usage.prompt)

    def _choose_more_precise(self, counted: _FullCount) -> _FullCount:
        """Return the full count that is more precise about the tool definitions: a count without images is preferred,
        then the count with fewer estimated tokens outside the definitions."""
        current = self._full_count
        if current is None or current.tools != counted.tools:
            return counted
        return min(
            current,
            counted,
            key=lambda full_count: (
                full_count.counts_without_tools.exact_tokens > 0,
                self.estimator.estimate(full_count.counts_without_tools),
            ),
        )

    def _section_counts(
        self, system: str, summary: Summary, tools: tuple[ToolSpec, ...], sections: Mapping[BudgetSection, str]
    ) -> dict[BudgetSection, Counts]:
        texts: dict[BudgetSection, str] = {"system": system, **{name: text for name, text in sections.items() if text}}
        self._system_texts = tuple(text for name, text in texts.items() if name == "system")
        counts: dict[BudgetSection, Counts] = {name: self._cached_text_counts(text) for name, text in texts.items()}
        if self._summary_counts[0] != summary:
            self._summary_counts = (summary, count_summary(summary, self.ruler))
        counts.update(self._summary_counts[1])
        separate_counts = [counts[name] for name in ("instructions", "memories", "skills") if name in counts]
        counts["system"] = subtract_counts(counts["system"], separate_counts)
        if self._tool_counts[0] != tools or not tools:
            self._tool_counts = (tools, count_tools(tools, self.ruler))
        counts["tools"] = self._tool_counts[1]
        return counts

    def _cached_text_counts(self, text: str) -> Counts:
        if text not in self._text_counts:
            if len(self._text_counts) >= _MAX_CACHED_TEXTS:
                self._text_counts.clear()
            self._text_counts[text] = count_text(text, self.ruler)
        return self._text_counts[text]

    def _seen_and_unseen(self, conversation: Conversation) -> tuple[Counts, Counts]:
        """Return the counts of all messages if the provider has counted none yet, and the counts of the messages added
        since its last count. One of the two is always empty."""
        visible = self._view_cache.visible_messages(conversation)
        if conversation.anchor is None:
            message_counts = self._message_counts.value_for(visible)
            return message_counts.counts + self._found_tool_counts(message_counts.names), Counts()
        unseen = visible[conversation.anchored :]
        if not unseen:
            return Counts(), Counts()
        message_counts = self._create_message_counter().value_for(unseen)
        return Counts(), message_counts.counts + self._found_tool_counts(message_counts.names) + Counts(replies=1)

    def _create_message_counter(self) -> "IncrementalFold[_MessageCounts, Message]":
        """Return a counter of messages that uses the current ruler."""
        ruler = self.ruler
        return IncrementalFold(_MessageCounts, lambda message_counts, message: message_counts.plus(message, ruler))

    def _found_tool_counts(self, names: Sequence[str]) -> Counts:
        """Return the size of the deferred definitions that the provider's search has found and the model therefore
        reads."""
        if not names:
            return Counts()
        deferred = {
            spec.name: replace(spec, deferred=None) for spec in self._tool_counts[0] if spec.deferred is not None
        }
        return count_tools((deferred[name] for name in names if name in deferred), self.ruler)

    def _known_tool_tokens(self, tools: tuple[ToolSpec, ...]) -> int | None:
        if self._full_count is None or self._full_count.tools != tools:
            return self._restored_tools[1] if tools and self._restored_tools[0] == tools else None
        estimate = self.estimator.estimate(self._tool_counts[1])
        return min(
            max(
                self._full_count.prompt_tokens - self.estimator.estimate(self._full_count.counts_without_tools),
                estimate // 3,
            ),
            estimate * 4,
        )

    def _report_reading(
        self, reading: CountReading, reply: Reply, budget: ContextBudget, emit: Callable[[Event], None]
    ) -> None:
        if reply.stop_reason in ("interrupted", "repetition") or reading in self._reported_readings:
            return
        self._reported_readings.add(reading)
        counted, expected = reply.usage.prompt, budget.used
        match reading:
            case "missing":
                emit(Noticed("the provider does not report token counts; they are estimated"))
            case "nonsense":
                emit(
                    Noticed(
                        f"the provider counted {counted:,} tokens where about {expected:,} were sent; its counts are "
                        "ignored and tokens are estimated"
                    )
                )
            case "truncated":
                emit(Noticed(truncation_notice(counted, expected)))
            case "fresh" | "doubtful" | "counted":
                pass
