"""The context policy of pi (badlogic/pi-mono; npm package @earendil-works/pi-coding-agent 1.6.0).

`core/compaction/compaction.js`: before each request, the session is compacted if its tokens exceed the window minus
16,384. About 20,000 tokens of the newest messages stay. The same model gets everything before as one text without
tools, with outputs cut to 2,000 characters and the previous summary. It is not cached (`cacheRetention: "none"`). If
the cut splits a turn, the beginning of the turn is summarised by a second request. The names of files that were read
and changed follow the summary. `core/tools/truncate.js`: outputs show 2,000 lines or 50 KB, commands their last.
`core/cache-warmer.js`: the last request is sent again before the cache expires if this should save 0.05 dollars or
more, for an hour while tools run and for 30 minutes while the user thinks, who continues with a probability of 0.15."""

from collections.abc import Sequence

from bench.context.billing import Rates
from bench.context.peers.driver import Moment, Peer, Plan, SummaryRequest
from bench.context.peers.history import (
    History,
    ToolOutput,
    calls_by_id,
    estimate_tokens,
    keep_last_lines,
    keep_lines,
    quote_history,
    requested_lines,
    stand_in,
    user_message,
)

RESERVED_TOKENS, RECENT_TOKENS = 16_384, 20_000
QUOTED_OUTPUT_CHARS = 2_000
MAX_LINES, MAX_BYTES, MATCHES, MATCH_CHARS = 2_000, 51_200, 100, 500
SYSTEM_CHARS, PROMPT_CHARS, TURN_PROMPT_CHARS = 370, 1_200, 560
DOLLARS_PER_TOKEN = 5e-6
"""Price of a token of fresh input of Claude Opus 4.5 and later, which decides whether warming the cache is worth it."""
MIN_SAVINGS_DOLLARS, CONTINUATION_PROBABILITY = 0.05, 0.15
MAX_WARMING_SECONDS, MAX_IDLE_WARMING_SECONDS = 3_600, 1_800


class Pi(Peer):
    __slots__ = ()

    def show_output(self, output: ToolOutput) -> str:
        match output.kind:
            case "bash":
                return keep_last_lines(output.output, MAX_LINES, MAX_BYTES)
            case "read":
                return keep_lines(output.output, requested_lines(output, MAX_LINES), MAX_BYTES)
            case "grep":
                return keep_lines(output.output, MATCHES, MAX_BYTES, MATCH_CHARS)
            case _:
                return output.output

    def plan(self, moment: Moment) -> Plan | None:
        if not moment.is_overflow and moment.used <= moment.window - RESERVED_TOKENS:
            return None
        previous = next((one for one in moment.history if one.origin == "summary"), None)
        history = tuple(one for one in moment.history if one is not previous)
        cut = _cut_index(history)
        turn = max((at for at in range(cut + 1) if history[at].origin == "user"), default=cut)
        before = previous.text if previous is not None else ""
        requests = []
        if turn > 0:
            requests.append(_request(history[:turn], before, PROMPT_CHARS))
        if turn < cut:
            requests.append(_request(history[turn:cut], "", TURN_PROMPT_CHARS))
        files = _file_names(history[:cut])

        def rebuild(summary: str) -> History:
            return (user_message(f"{summary}\n\n{files}", "summary"), *history[cut:])

        return Plan(rebuild, tuple(requests)) if requests else None

    def renewal_delays(self, prompt_tokens: int, gap: float, rates: Rates, *, in_turn: bool) -> Sequence[float]:
        probability = 1.0 if in_turn else CONTINUATION_PROBABILITY
        saved = (probability * max(rates.write - rates.read, 0) - rates.read) * prompt_tokens * DOLLARS_PER_TOKEN
        delay = min(0.9 * rates.ttl, rates.ttl - 10)
        if saved < MIN_SAVINGS_DOLLARS or delay <= 0 or delay == float("inf"):
            return ()
        until = min(gap, MAX_WARMING_SECONDS if in_turn else MAX_IDLE_WARMING_SECONDS)
        return [delay * count for count in range(1, int(until / delay) + 1) if delay * count < gap]


def _request(history: History, previous: str, prompt_chars: int) -> SummaryRequest:
    text = "\n\n".join((quote_history(history, QUOTED_OUTPUT_CHARS), previous, stand_in(prompt_chars)))
    return SummaryRequest((user_message(text),), stand_in(SYSTEM_CHARS), is_marked=False)


def _cut_index(history: History) -> int:
    """Return the index of the first message that stays. An output stays with its call."""
    cut_points = [at for at, one in enumerate(history) if one.origin != "outputs"]
    tokens = 0
    for at in range(len(history) - 1, -1, -1):
        tokens += estimate_tokens(history[at : at + 1])
        if tokens >= RECENT_TOKENS:
            return next((point for point in cut_points if point >= at), cut_points[-1])
    return cut_points[0]


def _file_names(history: History) -> str:
    calls = calls_by_id(history).values()
    changed = {str(call["input"].get("path", "")) for call in calls if call["name"] in ("edit", "write")}
    read = {str(call["input"].get("path", "")) for call in calls if call["name"] == "read"} - changed
    return "\n".join(
        ("<read-files>", *sorted(read), "</read-files>", "<modified-files>", *sorted(changed), "</modified-files>")
    )
