"""The context policy of opencode (anomalyco/opencode, formerly sst/opencode; npm package opencode-linux-x64 1.18.33).

`session/overflow.ts`: after a step, the session is compacted if its tokens reach the window minus the model's output,
of which at most 32,000 are reserved. `session/compaction.ts`: the newest messages stay, up to a quarter of that and at
most 15,000 tokens. The same model gets everything before as one text without tools, with outputs cut to 2,000
characters and the previous summary, so only this text is written to the cache. Old outputs are pruned only if
`compaction.prune` is set, which it is not by default. The new history is a question, the summary, the newest messages
and a message to continue. `tool/truncate.ts`: outputs show 2,000 lines or 50 KB, commands their last."""

from bench.context.peers.driver import Moment, Peer, Plan, SummaryRequest
from bench.context.peers.history import (
    History,
    ToolOutput,
    assistant_message,
    estimate_tokens,
    keep_last_lines,
    keep_lines,
    quote_history,
    requested_lines,
    stand_in,
    user_message,
)

MAX_OUTPUT_TOKENS = 32_000
TAIL_SHARE, MIN_TAIL_TOKENS, MAX_TAIL_TOKENS = 0.25, 2_000, 15_000
QUOTED_OUTPUT_CHARS = 2_000
MAX_LINES, MAX_BYTES, LINE_CHARS, MATCHES = 2_000, 51_200, 2_000, 100
SYSTEM_CHARS, PROMPT_CHARS = 600, 1_500
QUESTION = "What did we do so far?"
CONTINUE = "Continue if you have next steps, or stop and ask for clarification if you are unsure how to proceed."


class OpenCode(Peer):
    __slots__ = ()

    def show_output(self, output: ToolOutput) -> str:
        match output.kind:
            case "bash":
                return keep_last_lines(output.output, MAX_LINES, MAX_BYTES)
            case "read":
                return keep_lines(output.output, requested_lines(output, MAX_LINES), MAX_BYTES, LINE_CHARS)
            case "grep":
                return keep_lines(output.output, MATCHES, MAX_BYTES, LINE_CHARS)
            case _:
                return keep_lines(output.output, MAX_LINES, MAX_BYTES)

    def plan(self, moment: Moment) -> Plan | None:
        usable = moment.window - MAX_OUTPUT_TOKENS
        counted = moment.usage.prompt + moment.usage.output if moment.usage is not None else 0
        if not moment.is_overflow and counted < usable:
            return None
        history, new = moment.before_new_message()
        conversation = tuple(one for one in history if one.origin not in ("summary", "program"))
        previous = next((one.text for one in reversed(history) if one.origin == "summary"), "")
        start = _tail_start(conversation, min(MAX_TAIL_TOKENS, max(MIN_TAIL_TOKENS, int(TAIL_SHARE * usable))))
        text = "\n\n".join((stand_in(PROMPT_CHARS), previous, quote_history(conversation[:start], QUOTED_OUTPUT_CHARS)))

        def rebuild(summary: str) -> History:
            return (
                user_message(QUESTION, "program"),
                assistant_message(summary, "summary"),
                *conversation[start:],
                *(new or (user_message(CONTINUE),)),
            )

        return Plan(rebuild, (SummaryRequest((user_message(text),), stand_in(SYSTEM_CHARS)),))


def _tail_start(history: History, max_tokens: int) -> int:
    """Return the index of the first message that stays: whole turns that fit, and the end of one that does not."""
    starts = [at for at, one in enumerate(history) if one.origin == "user"]
    tail = len(history)
    for start, end in zip(reversed(starts), reversed([*starts, len(history)][1:]), strict=True):
        tokens = estimate_tokens(history[start:end])
        if tokens > max_tokens:
            fitting = (
                at
                for at in range(start + 1, end)
                if history[at].origin != "outputs" and estimate_tokens(history[at:end]) <= max_tokens
            )
            return next(fitting, tail)
        max_tokens -= tokens
        tail = start
    return tail if tail > 0 else len(history)
