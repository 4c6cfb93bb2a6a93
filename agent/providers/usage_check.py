"""Checks whether the token counts that a server reports can be trusted, and whether the server has truncated a
request."""

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from ebbtide.agent.budget.request_budget import ContextBudget
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
from ebbtide.agent.messages import Conversation, Message, Usage
from ebbtide.agent.providers.base import Reply
from ebbtide.agent.providers.usage import counted_request, is_anchored_by_other_model, may_drop_reasoning
from ebbtide.agent.tokens.estimate import is_plausible_count
from ebbtide.agent.tokens.incremental import is_prefix

UsageVerdict: TypeAlias = Literal["counted", "missing", "implausible", "fresh", "doubtful", "truncated"]
"""Whether a reported usage can be trusted. `fresh`: it covers only new content. `doubtful`: it was impossibly low once,
which is not yet treated as truncation."""


class UsageCheck:
    """Compares each reported usage with the request that was sent and with earlier counts."""

    def __init__(self) -> None:
        self.count_record: CountRecord | None = None
        """History of the server's counts, with which new counts are compared; None before the first one."""
        self._last_messages_and_min_tokens: tuple[tuple[Message, ...], int] = ((), 0)
        """The messages of the last request, and the minimum number of tokens that they take."""
        self._reported_readings: set[UsageVerdict] = set()

    def after_rewrite(self) -> None:
        """Expect shorter requests, because the view was rewritten."""
        self.count_record = self.count_record and self.count_record.after_rewrite()
        self._last_messages_and_min_tokens = (), 0

    def allow_truncation_report(self) -> None:
        """Allow the next truncation to be reported again."""
        self._reported_readings.discard("truncated")

    def check_usage(
        self,
        reply: Reply,
        conversation: Conversation,
        visible_messages: tuple[Message, ...],
        budget: ContextBudget,
        count_tokens: Callable[[Sequence[Message]], int],
    ) -> UsageVerdict:
        """Assess a reply's usage: whether it is plausible and covers everything that was sent. `visible_messages`: the
        messages sent. `count_tokens`: estimates the tokens of messages."""
        usage = reply.usage
        if min(usage.input, usage.cache_read, usage.cache_write, usage.output) < 0:
            return "implausible"
        if usage.prompt == 0:
            return "missing"
        record = self._comparable_record(conversation, visible_messages, reply.message.model)
        request = self._sent_request(visible_messages, usage, budget, count_tokens, is_first=has_no_reply(conversation))
        finding, self.count_record = assess_count(record, request)
        if finding != "whole" and (finding == "fresh" or usage.prompt >= MIN_WINDOW_TOKENS):
            return finding
        return "counted" if finding == "whole" and is_plausible_count(usage.prompt, budget.used) else "implausible"

    def _comparable_record(
        self, conversation: Conversation, visible_messages: tuple[Message, ...], model: str
    ) -> CountRecord:
        """Return the record to compare a count with. A resumed session starts with its last count, unless requests may
        have become shorter since then."""
        is_incomparable = is_anchored_by_other_model(conversation, model) or may_drop_reasoning(conversation)
        if self.count_record is not None:
            return self.count_record.after_rewrite() if is_incomparable else self.count_record
        if conversation.anchor is None or is_incomparable:
            return CountRecord()
        counted_messages = visible_messages[: max(conversation.anchored - 1, 0)]
        return CountRecord().with_earlier_count(min_tokens(counted_messages), conversation.anchor.prompt)

    def _sent_request(
        self,
        visible_messages: tuple[Message, ...],
        usage: Usage,
        budget: ContextBudget,
        count_tokens: Callable[[Sequence[Message]], int],
        *,
        is_first: bool,
    ) -> CountedRequest:
        measured, min_count = (
            self._last_messages_and_min_tokens
            if is_prefix(self._last_messages_and_min_tokens[0], visible_messages)
            else ((), 0)
        )
        min_count += min_tokens(visible_messages[len(measured) :])
        self._last_messages_and_min_tokens = visible_messages, min_count
        return counted_request(visible_messages, min_count, usage.prompt, budget, count_tokens, is_first=is_first)

    def report(self, reading: UsageVerdict, reply: Reply, budget: ContextBudget, emit: Callable[[Event], None]) -> None:
        """Inform the user that counts are not used. Each reason is reported once."""
        if reply.stop_reason in ("interrupted", "repetition") or reading in self._reported_readings:
            return
        self._reported_readings.add(reading)
        counted, expected = reply.usage.prompt, budget.used
        match reading:
            case "missing":
                emit(Noticed("the provider does not report token counts; they are estimated"))
            case "implausible":
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
