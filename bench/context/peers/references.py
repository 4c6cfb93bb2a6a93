"""Simple policies to compare with: no rewrites, a summary at 80 % of the window, and Anthropic's context editing."""

from bench.context.peers.driver import Moment, Peer, Plan, SummaryRequest
from bench.context.peers.history import (
    History,
    count_tokens,
    oldest_outputs,
    output_text,
    replace_outputs,
    stand_in,
    user_message,
)

SUMMARY_TRIGGER, TAIL_TOKENS, PROMPT_CHARS = 0.8, 8_000, 2_000
EDITING_TRIGGER, REMAINING_TOOL_USES = 100_000, 3
CLEARED = "[cleared to save context]"


class SummaryAtShare(Peer):
    """Summarises in a cached request at 80 % of the window. The newest 8,000 tokens of steps stay."""

    __slots__ = ()

    def plan(self, moment: Moment) -> Plan | None:
        if not moment.is_overflow and moment.used < SUMMARY_TRIGGER * moment.window:
            return None
        start = len(moment.history)
        while start > 0 and count_tokens(moment.history[start - 1 :]) <= TAIL_TOKENS:
            start -= 1
        while start < len(moment.history) and moment.history[start].origin == "outputs":
            start += 1

        def rebuild(summary: str) -> History:
            return (user_message(summary, "summary"), *moment.history[start:])

        prompt = user_message(stand_in(PROMPT_CHARS), "program")
        return Plan(rebuild, (SummaryRequest((*moment.history, prompt)),))


class ContextEditing(Peer):
    """Anthropic's `clear_tool_uses_20250919` with its defaults: above 100,000 tokens of input, the server clears all
    but three outputs. The client sends all of them again, so that this applies to each later request."""

    __slots__ = ()

    def plan(self, moment: Moment) -> Plan | None:
        old = oldest_outputs(moment.history, REMAINING_TOOL_USES)
        has_cleared = any(output_text(block) == CLEARED for block in old)
        if not has_cleared and not moment.is_overflow and moment.used <= EDITING_TRIGGER:
            return None
        texts = {block["tool_use_id"]: CLEARED for block in old if output_text(block) != CLEARED}
        history = replace_outputs(moment.history, texts)
        return Plan(lambda _: history) if texts else None
