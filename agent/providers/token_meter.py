"""The token meter of a session: the estimates learned for its model, and the counters of the turn. The estimates can be
serialised as JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ebbtide.agent.budget.preflight import ContextCounters, counters_for_final_turn
from ebbtide.agent.budget.request_budget import BudgetSection, ContextBudget, Window, build_budget, count_summary
from ebbtide.agent.budget.server_truncation import CountRecord
from ebbtide.agent.events.session import Event
from ebbtide.agent.messages import Conversation, Message, Usage
from ebbtide.agent.prompt.build import Prompt
from ebbtide.agent.prompt.view_cache import ViewCache
from ebbtide.agent.providers.base import Reply
from ebbtide.agent.providers.content_counts import ContentCounts
from ebbtide.agent.providers.usage import carried_usage, is_anchored_by_other_model, may_drop_reasoning
from ebbtide.agent.providers.usage_check import UsageCheck
from ebbtide.agent.tokens.estimate import (
    Estimator,
    TextCounts,
    TokenCounter,
    count_message,
    count_messages,
    count_text,
    count_tools,
    encode_estimator,
    estimate_by_chars,
    sum_counts,
    tool_definitions_text,
    update_estimator,
)
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.agent.view.visible import is_answer, turn_starts
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class _FullCount:
    """The provider's count of a whole request. Subtracting `counts_without_tools` from it gives the size of the tool
    definitions."""

    tools: tuple[ToolSpec, ...]
    counts_without_tools: TextCounts
    prompt_tokens: int

    def tool_tokens(self, estimator: Estimator, tool_counts: TextCounts) -> int:
        """Return the tokens of the tool definitions. `tool_counts`: the words and characters of their text, as the
        estimator counts them. The result stays within a range around the estimate."""
        estimate = estimator.estimate(tool_counts)
        rest = self.prompt_tokens - estimator.estimate(self.counts_without_tools)
        return min(max(rest, estimate // 3), estimate * 4)

    def more_precise(self, other: "_FullCount | None", estimator: Estimator) -> "_FullCount":
        """Return the count from which the size of the tool definitions follows more precisely. A request without images
        is better than one with images. Otherwise, the request with less other text is better. A count with different
        tools is never used."""
        if other is None or other.tools != self.tools:
            return self
        return min(
            other,
            self,
            key=lambda full_count: (
                full_count.counts_without_tools.exact_tokens > 0,
                estimator.estimate(full_count.counts_without_tools),
            ),
        )


class TokenMeter:
    """The token meter of one session."""

    def __init__(
        self,
        estimator: Estimator | None = None,
        token_counter: TokenCounter | None = None,
        load_tokenizer: Callable[["TokenMeter"], None] | None = None,
    ) -> None:
        """`load_tokenizer`: starts loading a tokenizer in the background; `prepare` calls it."""
        self.estimator = estimator or Estimator()
        self._content = ContentCounts(token_counter or TokenCounter())
        self.usage_check = UsageCheck()
        self.counters = ContextCounters()
        self._are_counters_divided = False
        """Whether the counters tell finished turns from the open one. After a reset, the next measurement divides
        them."""
        self.is_output_truncated = False
        """Whether an output of the last step was cut because space was short."""
        self._load_tokenizer = load_tokenizer
        self._scheduled_counter: TokenCounter | None = None
        self._full_count: _FullCount | None = None
        self._restored_tool_tokens: tuple[tuple[ToolSpec, ...], int] = (), 0
        self._view_cache = ViewCache()
        self._previous_schema_tokens = 0
        self._actual_window: int | None = None
        self.scale = 1.0
        """Ratio of counted to estimated tokens in messages, as of the last rewrite. Estimates of messages are
        multiplied by it until the provider has counted them."""

    @property
    def token_counter(self) -> TokenCounter:
        """The token counter in use. It is replaced once a tokenizer has been loaded."""
        return self._content.ruler

    def use_estimates_of(self, other: "TokenMeter") -> None:
        """Use another meter's estimates and reset all counts. Used when switching to a model with a different
        tokenizer."""
        self.estimator, self._load_tokenizer = other.estimator, other._load_tokenizer
        self._content, self.usage_check = ContentCounts(other.token_counter), UsageCheck()
        self._scheduled_counter, self._full_count, self._restored_tool_tokens = None, None, ((), 0)
        self._actual_window, self.scale = None, 1.0
        self.reset_counters()
        self.start_loading()

    def start_loading(self) -> None:
        """Start loading a better tokenizer. Only the first call has an effect."""
        load, self._load_tokenizer = self._load_tokenizer, None
        if load is not None:
            load(self)

    def schedule_counter(self, token_counter: TokenCounter) -> None:
        """Use this token counter from the next measurement on. All known messages are counted with it first, so this
        must not be called on the event loop's thread."""
        for message in self._content.known_messages:
            count_message(message, token_counter)
        self._scheduled_counter = token_counter

    def _apply_scheduled_ruler(self) -> None:
        token_counter, self._scheduled_counter = self._scheduled_counter, None
        if token_counter is not None:
            self._content, self._full_count = ContentCounts(token_counter), None

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
        counts = self._content.count_sections(prompt.system, conversation.summary, tools, sections or {})
        uncounted, added_counts = self._uncounted_message_counts(conversation)
        counted_tokens = conversation.anchor.total if conversation.anchor is not None else None
        scale = self.scale if counted_tokens is None else 1.0
        budget = build_budget(
            counts,
            uncounted,
            added_counts,
            counted_tokens,
            window,
            self.estimator,
            self._known_tool_tokens(tools),
            scale,
        )
        budget = replace(budget, has_output_overflow=self.is_output_truncated)
        self._update_counters(budget, conversation, is_counted=counted_tokens is not None)
        return budget

    def _update_counters(self, budget: ContextBudget, conversation: Conversation, *, is_counted: bool) -> None:
        """Update the counters with a measurement. If it replaces them as a whole, because there was nothing in them or
        the provider has counted the request for the first time, divide them into finished turns and the open one."""
        previous = self.counters
        self.counters = previous.with_measurement(budget, is_counted=is_counted)
        if self._are_counters_divided and self.counters.is_schema_counted == previous.is_schema_counted:
            return
        pending, new = self._open_turn_tokens(conversation)
        self.counters = self.counters.redistribute(max(pending, previous.pending_tokens), new)
        self._are_counters_divided = True

    def _open_turn_tokens(self, conversation: Conversation) -> tuple[int, int]:
        """Return the estimated tokens of the message that began the open turn, and of the messages since. Both are 0 if
        the last turn is finished."""
        messages = self._view_cache.visible_messages(conversation)
        starts = turn_starts(messages)
        if not starts or is_answer(messages[-1]):
            return 0, 0
        return self.estimate_message(messages[starts[-1]]), self._messages_tokens(messages[starts[-1] + 1 :])

    def estimate_message(self, message: Message) -> int:
        """Return the estimated tokens of a message."""
        return self.estimator.estimate(count_message(message, self.token_counter))

    def _messages_tokens(self, messages: Sequence[Message]) -> int:
        return self.estimator.estimate(count_messages(messages, self.token_counter))

    def estimate_text(self, text: str) -> int:
        """Return the estimated tokens of text."""
        return self.estimator.estimate(count_text(text, self.token_counter))

    def estimate_definition(self, spec: ToolSpec) -> int:
        """Return the estimated tokens of a tool definition."""
        return self.estimator.estimate(count_tools((spec,), self.token_counter))

    @property
    def tool_tokens(self) -> int:
        """Estimated tokens of the tool definitions in the last measurement."""
        known_tokens = self._known_tool_tokens(self._content.tools)
        return self.estimator.estimate(self._content.tool_counts) if known_tokens is None else known_tokens

    def restore_tool_tokens(self, tools: tuple[ToolSpec, ...], tokens: int) -> None:
        """Use the token count that an earlier request gave for these definitions, until they are counted again."""
        self._restored_tool_tokens = tools, tokens

    def restore_counts(self, count_record: CountRecord | None, scale: float, *, is_prefix_unchanged: bool) -> None:
        """Restore the server's counts from an earlier run, and the scale for estimates of newer content.
        `is_prefix_unchanged`: the system prompt and tools are unchanged."""
        self.usage_check.count_record = (
            count_record if count_record is None or is_prefix_unchanged else count_record.after_rewrite()
        )
        self.scale = scale

    def fresh_copy(self) -> "TokenMeter":
        """Return an independent meter with the same estimates."""
        copy = TokenMeter(self.estimator, self.token_counter)
        known_tokens = self._known_tool_tokens(self._content.tools)
        copy.restore_tool_tokens(
            *(self._restored_tool_tokens if known_tokens is None else (self._content.tools, known_tokens))
        )
        copy.scale = self.scale
        return copy

    def update_scale(self, conversation: Conversation, budget: ContextBudget) -> None:
        """Compute the scale of later estimates from the provider's count of this conversation."""
        if conversation.anchor is None:
            return
        summary = count_summary(conversation.summary, self.token_counter).values()
        message_counts = self._content.count_messages(self._view_cache.visible_messages(conversation))
        estimated_tokens = self.estimator.estimate(sum_counts(summary) + message_counts)
        counted_tokens = budget.history + budget.pending + budget.retain + budget.summary
        self.scale = min(max(counted_tokens / estimated_tokens, 0.25), 3.0) if estimated_tokens else 1.0

    def begin_turn(self, message: Message, reasoning: int = 0) -> int:
        """Start the counters of a turn with the user's message. Return its estimated tokens. `reasoning`: the model's
        thinking budget."""
        self.is_output_truncated = False
        tokens = self.estimate_message(message)
        self.counters = self.counters.at_turn_start(tokens, reasoning)
        return tokens

    def enter_final_turn(self) -> None:
        """Switch the counters to the final turn, in which the model only writes a report."""
        self.counters = counters_for_final_turn(self.counters)

    def take_schema_scale(self, tools: Sequence[ToolSpec]) -> float | None:
        """Return the size of the tool definitions, in tokens per four characters. None if the size has not changed
        since the last call."""
        schema_tokens, previous_schema = self.counters.tool_tokens, self._previous_schema_tokens
        self._previous_schema_tokens = schema_tokens
        return (
            None
            if schema_tokens == previous_schema
            else round(schema_tokens / max(estimate_by_chars(tool_definitions_text(tools)), 1), 3)
        )

    def end_turn(self, conversation: Conversation) -> None:
        """Update the counters at the end of a turn: use the provider's count, plus an estimate for messages that it has
        not counted."""
        if conversation.anchor is None:
            self.counters = self.counters.at_turn_end()
            return
        _, added_counts = self._uncounted_message_counts(conversation)
        self.counters = self.counters.at_turn_end(conversation.anchor.total + self.estimator.estimate(added_counts))

    def reset_counters(self) -> None:
        """Reset the counters after a compaction, until the next measurement."""
        self.counters, self.is_output_truncated = ContextCounters(reasoning=self.counters.reasoning), False
        self._are_counters_divided = False
        self.usage_check.after_rewrite()

    def take_actual_window(self) -> int | None:
        """Return and clear the server's actual window. None unless the server truncated the last counted request."""
        window, self._actual_window = self._actual_window, None
        return window

    def add_reply(
        self,
        conversation: Conversation,
        reply: Reply,
        budget: ContextBudget,
        emit: Callable[[Event], None],
    ) -> Conversation:
        """Add the reply to the conversation, with the provider's count of the last measured request as its anchor. If
        that count is implausible, no anchor is set and nothing is learned."""
        answered_conversation = conversation.plus(reply.message)
        if reply.pass_count > 1:
            return answered_conversation  # a count of several passes covers more than one request
        visible = self._view_cache.visible_messages(conversation)
        assessment = self.usage_check.check_usage(reply, conversation, visible, budget, self._messages_tokens)
        if assessment != "counted":
            self.usage_check.report(assessment, reply, budget, emit)
            return (
                self._discard_server_counts(answered_conversation)
                if assessment == "truncated"
                else answered_conversation
            )
        self._learn_from_usage(conversation, reply.usage, reply.message.model)
        return replace(answered_conversation, anchor=carried_usage(reply), anchored=len(answered_conversation.messages))

    def serialise_estimates(self, server: str = "") -> str:
        return encode_estimator(self.estimator, server)

    def _discard_server_counts(self, conversation: Conversation) -> Conversation:
        """Discard all counts and estimates of a server that truncates, because earlier counts may also be wrong. The
        server's largest count becomes the actual window."""
        record = self.usage_check.count_record
        assert record is not None, "a finding comes with a record"
        self._actual_window, self.usage_check.count_record = record.window, CountRecord()
        self.estimator = Estimator()
        self._full_count = None
        self._restored_tool_tokens = ((), 0)
        self.scale = 1.0
        self.counters = ContextCounters(reasoning=self.counters.reasoning)
        self._are_counters_divided = False
        return replace(conversation, anchor=None, anchored=0)

    def _learn_from_usage(self, conversation: Conversation, usage: Usage, model: str) -> None:
        message_counts, added_counts = self._uncounted_message_counts(conversation)
        if conversation.anchor is None:
            counts_without_tools = self._content.text_counts + message_counts + added_counts
            full_count = _FullCount(self._content.tools, counts_without_tools, usage.prompt)
            self._full_count = full_count.more_precise(self._full_count, self.estimator)
            counts = counts_without_tools + self._content.tool_counts
            self.estimator = update_estimator(self.estimator, counts, usage.prompt, usage.prompt, is_full_request=True)
        elif (
            added_counts != TextCounts()
            and not is_anchored_by_other_model(conversation, model)
            and not may_drop_reasoning(conversation)
        ):
            reported_tokens = usage.prompt - conversation.anchor.total
            self.estimator = update_estimator(self.estimator, added_counts, reported_tokens, usage.prompt)

    def _uncounted_message_counts(self, conversation: Conversation) -> tuple[TextCounts, TextCounts]:
        """Count the messages that the provider has not counted. If it has counted none at all, the first result covers
        all messages; otherwise, the second result covers the messages since its last count. The other result is
        empty."""
        visible = self._view_cache.visible_messages(conversation)
        if conversation.anchor is None:
            return self._content.count_all_messages(visible), TextCounts()
        added_messages = visible[conversation.anchored :]
        return TextCounts(), self._content.count_messages(added_messages) + TextCounts(
            replies=1
        ) if added_messages else TextCounts()

    def _known_tool_tokens(self, tools: tuple[ToolSpec, ...]) -> int | None:
        if self._full_count is None or self._full_count.tools != tools:
            return self._restored_tool_tokens[1] if tools and self._restored_tool_tokens[0] == tools else None
        return self._full_count.tool_tokens(self.estimator, self._content.tool_counts)
