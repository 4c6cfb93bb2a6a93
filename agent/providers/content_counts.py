"""Counts the content of requests with a token counter. Counts are cached, because most content is the same in the next
request."""

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

from ebbtide.agent.budget.request_budget import BudgetSection, count_summary
from ebbtide.agent.messages import Message, ProviderItem, Summary
from ebbtide.agent.providers.usage import subtract_counts
from ebbtide.agent.tokens.estimate import TextCounts, TokenCounter, count_message, count_text, count_tools, sum_counts
from ebbtide.agent.tokens.incremental import IncrementalFold
from ebbtide.agent.tool_specs import ToolSpec
from ebbtide.tools.lazy import dataclass

_MAX_CACHED_TEXTS = 64
"""Maximum number of cached text counts. The cached texts are sections of the system prompt."""


@dataclass(slots=True)
class _MessageCounts:
    """Accumulated counts of messages."""

    counts: TextCounts = field(default_factory=TextCounts)
    names: list[str] = field(default_factory=list)
    """Names of the tools found by the provider's search."""

    def plus(self, message: Message, ruler: TokenCounter) -> "_MessageCounts":
        self.counts += count_message(message, ruler)
        self.names += (name for part in message.parts if isinstance(part, ProviderItem) for name in part.tools)
        return self


class ContentCounts:
    """The counts of the parts of the next request."""

    def __init__(self, ruler: TokenCounter) -> None:
        self.ruler = ruler
        self.tools: tuple[ToolSpec, ...] = ()
        """The tools offered in the last measured request."""
        self.tool_counts = TextCounts()
        self._system_texts: tuple[str, ...] = ()
        self._text_counts: dict[str, TextCounts] = {}
        self._summary_counts: tuple[Summary, dict[BudgetSection, TextCounts]] = (Summary(), {})
        self._message_counts = self._create_message_counter()

    @property
    def known_messages(self) -> tuple[Message, ...]:
        """The messages counted last."""
        return self._message_counts.processed_messages

    def count_sections(
        self, system: str, summary: Summary, tools: tuple[ToolSpec, ...], sections: Mapping[BudgetSection, str]
    ) -> dict[BudgetSection, TextCounts]:
        """Return the counts of everything that precedes the messages of a request."""
        texts: dict[BudgetSection, str] = {"system": system, **{name: text for name, text in sections.items() if text}}
        self._system_texts = tuple(text for name, text in texts.items() if name == "system")
        counts: dict[BudgetSection, TextCounts] = {name: self._cached_text_counts(text) for name, text in texts.items()}
        if self._summary_counts[0] != summary:
            self._summary_counts = (summary, count_summary(summary, self.ruler))
        counts.update(self._summary_counts[1])
        separate_counts = [counts[name] for name in ("instructions", "memories", "skills") if name in counts]
        counts["system"] = subtract_counts(counts["system"], separate_counts)
        if self.tools != tools or not tools:
            self.tools, self.tool_counts = tools, count_tools(tools, self.ruler)
        counts["tools"] = self.tool_counts
        return counts

    @property
    def text_counts(self) -> TextCounts:
        """The counts of the system prompt and the summary in the last measured request."""
        system_counts = map(self._cached_text_counts, self._system_texts)
        return sum_counts((*system_counts, *self._summary_counts[1].values()))

    def count_all_messages(self, messages: tuple[Message, ...]) -> TextCounts:
        """Return the counts of a conversation's messages, including the definitions of tools found in them. Only new
        messages are counted."""
        return self._with_found_tools(self._message_counts.value_for(messages))

    def count_messages(self, messages: tuple[Message, ...]) -> TextCounts:
        """Return the counts of some messages, including the definitions of tools found in them."""
        return self._with_found_tools(self._create_message_counter().value_for(messages))

    def _cached_text_counts(self, text: str) -> TextCounts:
        if text not in self._text_counts:
            if len(self._text_counts) >= _MAX_CACHED_TEXTS:
                self._text_counts.clear()
            self._text_counts[text] = count_text(text, self.ruler)
        return self._text_counts[text]

    def _create_message_counter(self) -> "IncrementalFold[_MessageCounts, Message]":
        ruler = self.ruler
        return IncrementalFold(_MessageCounts, lambda message_counts, message: message_counts.plus(message, ruler))

    def _with_found_tools(self, message_counts: _MessageCounts) -> TextCounts:
        return message_counts.counts + self._found_tool_counts(message_counts.names)

    def _found_tool_counts(self, names: Sequence[str]) -> TextCounts:
        """Count the deferred definitions that the provider's search has found, because the model reads them."""
        if not names:
            return TextCounts()
        deferred = {
            spec.name: replace(spec, deferred_group=None) for spec in self.tools if spec.deferred_group is not None
        }
        return count_tools((deferred[name] for name in names if name in deferred), self.ruler)
