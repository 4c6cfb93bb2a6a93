"""The token meter of a session: learned estimates for its model, and the counters of the turn. Learned state is
serialised as JSON text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Literal, TypeAlias

from ebbtide.agent.context.budget import BudgetSection, ContextBudget, Window, apportion, count_summary
from ebbtide.agent.context.estimate import (
    Counts,
    Estimator,
    Ruler,
    chars_estimate,
    count_message,
    count_messages,
    count_text,
    count_tools,
    encode_estimator,
    estimate_messages,
    is_plausible,
    learn,
    tools_text,
    total,
)
from ebbtide.agent.context.incremental import IncrementalFold, is_prefix
from ebbtide.agent.context.preflight import Counters, settle_for_final_turn
from ebbtide.agent.context.prompt import Prompt
from ebbtide.agent.context.server_truncation import (
    MIN_WINDOW_TOKENS,
    CountedRequest,
    CountRecord,
    is_new,
    judge,
    min_tokens,
    truncation_notice,
)
from ebbtide.agent.context.tool_selection import ToolSpec
from ebbtide.agent.context.view import View
from ebbtide.agent.events.session import Event, Noticed
from ebbtide.agent.messages import Conversation, Message, ProviderItem, Summary, Usage
from ebbtide.agent.providers.base import Reply
from ebbtide.agent.providers.usage import carried_usage, drops_reasoning, is_foreign, sent_of, subtract_counts
from ebbtide.tools.lazy import dataclass

CountReading: TypeAlias = Literal["counted", "missing", "nonsense", "fresh", "doubtful", "truncated"]
"""How far a reported usage can be trusted. `fresh`: it covers only new content. `doubtful`: less than possible, for
the first time."""

_MAX_CACHED_TEXTS = 64
"""How many texts have their counts cached: the sections of the system text."""


@dataclass(frozen=True, slots=True)
class _FullCount:
    """A request counted as a whole: the tool definitions take what its other parts leave."""

    tools: tuple[ToolSpec, ...]
    rest: Counts
    prompt: int


@dataclass(slots=True)
class _MessageCounts:
    """The counts of messages."""

    counts: Counts = field(default_factory=Counts)
    names: list[str] = field(default_factory=list)
    """Tools that the provider's search has found."""

    def plus(self, message: Message, ruler: Ruler) -> "_MessageCounts":
        self.counts += count_message(message, ruler)
        self.names += (name for part in message.parts if isinstance(part, ProviderItem) for name in part.tools)
        return self


class Meter:
    """The token meter of one session. `ruler` may be replaced once a tokenizer has been loaded."""

    def __init__(
        self,
        estimator: Estimator | None = None,
        ruler: Ruler | None = None,
        load: Callable[["Meter"], None] | None = None,
    ) -> None:
        """`load`: starts loading a tokenizer in the background; called by `prepare`."""
        self.estimator = estimator or Estimator()
        self.ruler = ruler or Ruler()
        self.counters = Counters()
        self.crowded = False
        """Whether an output of the last step was cut for lack of space."""
        self._load = load
        self._next: Ruler | None = None
        self._shown: tuple[str, ...] = ()
        self._texts: dict[str, Counts] = {}
        self._tools: tuple[tuple[ToolSpec, ...], Counts] = ((), Counts())
        self._summary: tuple[Summary, dict[BudgetSection, Counts]] = (Summary(), {})
        self._messages = self._message_counter()
        self._first: _FullCount | None = None
        self._remembered: tuple[tuple[ToolSpec, ...], int] = (), 0
        self._view = View()
        self._told: set[CountReading] = set()
        self._schema_told = 0
        self.record: CountRecord | None = None
        """What the server's counts have been like; None before the first."""
        self._sizes: tuple[tuple[Message, ...], int, int] = ((), 0, 0)
        """The messages counted last, their minimum tokens, and an estimate with fixed weights."""
        self._real_window: int | None = None
        self.scale = 1.0
        """Counted tokens per estimated token of messages, before they were last rewritten; applied to estimates of
        the rest until it is counted."""

    def replace_with(self, other: "Meter") -> None:
        """Take over another meter's estimates and reset all counts: used for another model, which has other tokens."""
        self.estimator, self.ruler, self._load = other.estimator, other.ruler, other._load
        self._next, self._first, self._remembered = None, None, ((), 0)
        self._texts, self._tools, self._messages = {}, ((), Counts()), self._message_counter()
        self._summary = (Summary(), {})
        self._told = set()
        self.record, self._real_window, self.scale = None, None, 1.0
        self.reset_counters()
        self.prepare()

    def prepare(self) -> None:
        """Start loading a better tokenizer, once."""
        load, self._load = self._load, None
        if load is not None:
            load(self)

    def use(self, ruler: Ruler) -> None:
        """Switch to this ruler at the next measurement. Counts all known messages with it first. Call it from any
        thread except the event loop's."""
        for message in self._messages.seen:
            count_message(message, ruler)
        self._next = ruler

    def _take_ruler(self) -> None:
        ruler, self._next = self._next, None
        if ruler is not None:
            self.ruler = ruler
            self._texts, self._tools, self._messages = {}, ((), Counts()), self._message_counter()
            self._summary = (Summary(), {})
            self._first = None

    def measure(
        self,
        prompt: Prompt,
        conversation: Conversation,
        tools: tuple[ToolSpec, ...],
        window: Window,
        sections: Mapping[BudgetSection, str] | None = None,
    ) -> ContextBudget:
        """The budget of the next request. `tools`: the offered tools, including deferred ones, which cost nothing
        until they are found. `sections`: parts of the system text that are shown separately, and anything else
        before the messages."""
        self._take_ruler()
        counts = self._sections(prompt.system, conversation.summary, tools, sections or {})
        seen, unseen = self._split(conversation)
        counted = conversation.anchor.total if conversation.anchor is not None else None
        scale = self.scale if counted is None else 1.0
        budget = apportion(counts, seen, unseen, counted, window, self.estimator, self._schema(tools), scale)
        budget = replace(budget, crowded=self.crowded)
        self.counters = self.counters.with_measurement(budget, is_counted=counted is not None)
        return budget

    def size_of(self, message: Message) -> int:
        """Estimated tokens of one message."""
        return self.estimator.tokens(count_message(message, self.ruler))

    def _size_of_all(self, messages: Sequence[Message]) -> int:
        return self.estimator.tokens(count_messages(messages, self.ruler))

    def size_of_text(self, text: str) -> int:
        """Estimated tokens of a text."""
        return self.estimator.tokens(count_text(text, self.ruler))

    def size_of_tool(self, spec: ToolSpec) -> int:
        """Estimated tokens of a tool definition."""
        return self.estimator.tokens(count_tools((spec,), self.ruler))

    @property
    def tool_tokens(self) -> int:
        """Estimated tokens of the tool definitions in the last measurement."""
        known = self._schema(self._tools[0])
        return self.estimator.tokens(self._tools[1]) if known is None else known

    def remember_tools(self, tools: tuple[ToolSpec, ...], tokens: int) -> None:
        """Use the token count of these definitions from an earlier request, until they are counted again."""
        self._remembered = tools, tokens

    def remember_counts(self, record: CountRecord | None, scale: float, *, begins_as_before: bool) -> None:
        """Restore the server's counts from an earlier run, and the scale for estimates of what has not been counted
        since. `begins_as_before`: the system text and tools are unchanged."""
        self.record = record if record is None or begins_as_before else record.after_rewrite()
        self.scale = scale

    def fresh_copy(self) -> "Meter":
        """An independent meter with the same estimates."""
        other = Meter(self.estimator, self.ruler)
        known = self._schema(self._tools[0])
        other.remember_tools(*(self._remembered if known is None else (self._tools[0], known)))
        other.scale = self.scale
        return other

    def scale_by(self, conversation: Conversation, budget: ContextBudget) -> None:
        """Scale later estimates by how this conversation was counted. `budget`: its budget."""
        if conversation.anchor is None:
            return
        summary = count_summary(conversation.summary, self.ruler).values()
        inside = self._message_counter().of(self._view.messages(conversation))
        estimated = self.estimator.tokens(total(summary) + inside.counts + self._found_tool_counts(inside.names))
        counted = budget.history + budget.pending + budget.retain + budget.summary
        self.scale = min(max(counted / estimated, 0.25), 3.0) if estimated else 1.0

    def begin_turn(self, said: Message) -> int:
        """Seed the counters of a turn with the user's message. Return its estimated tokens."""
        self.crowded = False
        seed = self.size_of(said)
        self.counters = self.counters.at_turn_start(seed)
        return seed

    def force_final(self) -> None:
        """Settle the counters for the final turn, which only writes its report."""
        self.counters = settle_for_final_turn(self.counters)

    def schema_scale(self, tools: Sequence[ToolSpec]) -> float | None:
        """Tokens of the tool definitions per four characters; None if unchanged since the last call."""
        schema, before = self.counters.schema, self._schema_told
        self._schema_told = schema
        return None if schema == before else round(schema / max(chars_estimate(tools_text(tools)), 1), 3)

    def end_turn(self, conversation: Conversation) -> None:
        """Commit the counters: the provider's count, plus an estimate of what it has not seen."""
        if conversation.anchor is None:
            self.counters = self.counters.at_turn_end()
            return
        _, unseen = self._split(conversation)
        self.counters = self.counters.at_turn_end(conversation.anchor.total + self.estimator.tokens(unseen))

    def reset_counters(self) -> None:
        """Reset the counters after a compaction, until the next measurement."""
        self.counters, self.crowded = Counters(reasoning=self.counters.reasoning), False
        self.record = self.record and self.record.after_rewrite()
        self._sizes = (), 0, 0

    def take_real_window(self) -> int | None:
        """The real window of a server that truncated the last counted request; returned once."""
        window, self._real_window = self._real_window, None
        return window

    def forget_truncation(self) -> None:
        """The server has read more than the window found: report the next truncation again."""
        self._told.discard("truncated")

    def anchor_reply(
        self,
        conversation: Conversation,
        reply: Reply,
        budget: ContextBudget,
        emit: Callable[[Event], None],
    ) -> Conversation:
        """Add the reply to the conversation, anchored at the provider's count for the last measured request. An
        implausible count anchors nothing and is not learned from."""
        answered = conversation.plus(reply.message)
        if reply.passes > 1:
            return answered  # its counts may cover more than one request
        reading = self._assess_usage(reply, conversation, budget)
        if reading != "counted":
            self._report_reading(reading, reply, budget, emit)
            return self._distrusting(answered) if reading == "truncated" else answered
        self._learn(conversation, reply.usage, reply.message.model)
        return replace(answered, anchor=carried_usage(reply), anchored=len(answered.messages))

    def serialise(self, server: str = "") -> str:
        return encode_estimator(self.estimator, server)

    def _assess_usage(self, reply: Reply, conversation: Conversation, budget: ContextBudget) -> CountReading:
        """Whether a reply's usage is plausible and covers everything sent."""
        usage = reply.usage
        if min(usage.input, usage.cache_read, usage.cache_write, usage.output) < 0:
            return "nonsense"
        if usage.prompt == 0:
            return "missing"
        finding, self.record = judge(
            self._record_for(conversation, reply), self._sent_request(conversation, usage, budget)
        )
        if finding != "whole" and (finding == "fresh" or usage.prompt >= MIN_WINDOW_TOKENS):
            return finding
        return "counted" if finding == "whole" and is_plausible(usage.prompt, budget.used) else "nonsense"

    def _record_for(self, conversation: Conversation, reply: Reply) -> CountRecord:
        """What a count is compared with. A resumed session starts with its last count, if requests have only grown
        since."""
        is_other = is_foreign(conversation, reply.message.model) or drops_reasoning(conversation)
        if self.record is not None:
            return self.record.after_rewrite() if is_other else self.record
        if conversation.anchor is None or is_other:
            return CountRecord()
        before = self._view.messages(conversation)[: max(conversation.anchored - 1, 0)]
        return CountRecord().with_earlier_count(
            min_tokens(before), conversation.anchor.prompt, estimate_messages(before)
        )

    def _sent_request(self, conversation: Conversation, usage: Usage, budget: ContextBudget) -> CountedRequest:
        shown = self._view.messages(conversation)
        before, least, plain = self._sizes if is_prefix(self._sizes[0], shown) else ((), 0, 0)
        least, plain = least + min_tokens(shown[len(before) :]), plain + estimate_messages(shown[len(before) :])
        self._sizes = shown, least, plain
        return sent_of(shown, (least, plain), usage.prompt, budget, self._size_of_all, is_first=is_new(conversation))

    def _distrusting(self, conversation: Conversation) -> Conversation:
        """Discard everything counted and learned from a server that truncates, since some counts were already wrong.
        Its largest count is its real window."""
        assert self.record is not None, "a finding comes with a record"
        self._real_window, self.record = self.record.window, CountRecord()
        self.estimator, self._first, self._remembered, self.scale = Estimator(), None, ((), 0), 1.0
        self.counters = Counters(reasoning=self.counters.reasoning)
        return replace(conversation, anchor=None, anchored=0)

    def _learn(self, conversation: Conversation, usage: Usage, model: str) -> None:
        seen, unseen = self._split(conversation)
        if conversation.anchor is None:
            written = (*(self._text(text) for text in self._shown), *self._summary[1].values())
            rest = total(written) + seen + unseen
            self._first = self._clearer(_FullCount(self._tools[0], rest, usage.prompt))
            counts = rest + self._tools[1]
            self.estimator = learn(self.estimator, counts, usage.prompt, usage.prompt, whole=True)
        elif unseen != Counts() and not is_foreign(conversation, model) and not drops_reasoning(conversation):
            reported = usage.prompt - conversation.anchor.total
            self.estimator = learn(self.estimator, unseen, reported, usage.prompt)

    def _clearer(self, counted: _FullCount) -> _FullCount:
        """Of the two full counts, keep the one that says more about the tool definitions: the one with fewer
        estimated tokens beside them, above all without images."""
        known = self._first
        if known is None or known.tools != counted.tools:
            return counted
        return min(known, counted, key=lambda one: (one.rest.exact > 0, self.estimator.tokens(one.rest)))

    def _sections(
        self, system: str, summary: Summary, tools: tuple[ToolSpec, ...], sections: Mapping[BudgetSection, str]
    ) -> dict[BudgetSection, Counts]:
        texts: dict[BudgetSection, str] = {"system": system, **{name: text for name, text in sections.items() if text}}
        self._shown = tuple(text for name, text in texts.items() if name == "system")
        counts: dict[BudgetSection, Counts] = {name: self._text(text) for name, text in texts.items()}
        if self._summary[0] != summary:
            self._summary = (summary, count_summary(summary, self.ruler))
        counts.update(self._summary[1])
        inside = [counts[name] for name in ("instructions", "memories", "skills") if name in counts]
        counts["system"] = subtract_counts(counts["system"], inside)
        if self._tools[0] != tools or not tools:
            self._tools = (tools, count_tools(tools, self.ruler))
        counts["tools"] = self._tools[1]
        return counts

    def _text(self, text: str) -> Counts:
        if text not in self._texts:
            if len(self._texts) >= _MAX_CACHED_TEXTS:
                self._texts.clear()
            self._texts[text] = count_text(text, self.ruler)
        return self._texts[text]

    def _split(self, conversation: Conversation) -> tuple[Counts, Counts]:
        """Counts of the messages that the provider has counted, and of those it has not."""
        shown = self._view.messages(conversation)
        if conversation.anchor is None:
            inside = self._messages.of(shown)
            return inside.counts + self._found_tool_counts(inside.names), Counts()
        unseen = shown[conversation.anchored :]
        if not unseen:
            return Counts(), Counts()
        inside = self._message_counter().of(unseen)
        return Counts(), inside.counts + self._found_tool_counts(inside.names) + Counts(replies=1)

    def _message_counter(self) -> "IncrementalFold[_MessageCounts, Message]":
        """Counts messages with the current ruler."""
        ruler = self.ruler
        return IncrementalFold(_MessageCounts, lambda inside, message: inside.plus(message, ruler))

    def _found_tool_counts(self, names: Sequence[str]) -> Counts:
        """Counts of deferred definitions that the provider's search has found, which the model therefore sees."""
        if not names:
            return Counts()
        deferred = {spec.name: replace(spec, deferred=None) for spec in self._tools[0] if spec.deferred is not None}
        return count_tools((deferred[name] for name in names if name in deferred), self.ruler)

    def _schema(self, tools: tuple[ToolSpec, ...]) -> int | None:
        if self._first is None or self._first.tools != tools:
            return self._remembered[1] if tools and self._remembered[0] == tools else None
        guess = self.estimator.tokens(self._tools[1])
        return min(max(self._first.prompt - self.estimator.tokens(self._first.rest), guess // 3), guess * 4)

    def _report_reading(
        self, reading: CountReading, reply: Reply, budget: ContextBudget, emit: Callable[[Event], None]
    ) -> None:
        if reply.stop_reason in ("interrupted", "repetition") or reading in self._told:
            return
        self._told.add(reading)
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
