"""Estimates how likely the model is to need an output again once the view shows only part of it or a stub. Also tracks
what the model has recalled so far.

The probability depends on what the output shows (a file, however it was printed; search results or a report; anything
else), its size, and the idle time. Idle time is the number of requests since the output was added, or since the last
mention of a name that few other outputs contain. The odds were fitted to 31 recorded sessions of four projects with
`python -m bench.context.fit FOLDER`. An output does not count as needed if the names in its stub were enough. More
detailed models, with the program that printed the output, later changes to its file or the number of turns since,
described other projects worse than this one.

If a session's model recalls a kind of content more often than expected, the session uses higher odds. Outputs covered
by a summary are not counted, because they were not removed by masking.
"""

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ebbtide.agent.messages import Conversation, Recalls, ToolCall, ToolOutput, User
from ebbtide.agent.tool_specs import executed_call
from ebbtide.agent.view.references import CURRENT_SESSION, BadReference, OutputRef, parse_reference
from ebbtide.agent.view.visible import numbered_outputs
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.tool_traits import OutputContent, role_of, traits_of


@dataclass(frozen=True, slots=True)
class ReuseOdds:
    """The odds that an output is needed again: `level · (tokens / 400)^size_exponent / (1 + idle)^idle_exponent`, where
    the level depends on what the output shows."""

    file: float
    """Level of files and parts of files, however they were printed."""
    search: float
    """Level of search results and of reports by other agents."""
    other: float
    size_exponent: float
    idle_exponent: float

    def level_of(self, content: OutputContent) -> float:
        match content:
            case "file" | "view":
                return self.file
            case "search" | "report":
                return self.search
            case "change" | "program" | "other":
                return self.other

    def probability(self, content: OutputContent, tokens: int, idle_requests: int) -> float:
        """Return the probability that an output of `tokens` tokens is needed again after `idle_requests` requests."""
        size_factor = math.pow(tokens / TYPICAL_OUTPUT_TOKENS, self.size_exponent)
        odds = self.level_of(content) * size_factor / math.pow(1 + idle_requests, self.idle_exponent)
        return odds / (1 + odds)


TYPICAL_OUTPUT_TOKENS = 400
REUSE_ODDS = ReuseOdds(file=0.191, search=0.144, other=0.033, size_exponent=0.462, idle_exponent=0.653)

MIN_AGE_REQUESTS = 3
"""Number of requests for which an output always stays in view. The odds apply only to older outputs."""
EXPECTED_RECALL_SHARE = 0.1
"""Expected share of masked or cut outputs that are recalled, if the odds are accurate."""
PRIOR_RECALLS = 1.0
"""Weight of the odds compared with the session's own recalls, as a number of recalls. From the second recall on, the
session's own count for more."""
MAX_REUSE_FACTOR = 4.0
"""Maximum factor by which a session's recalls can raise the probability."""


def content_kind(call: ToolCall) -> OutputContent:
    """Return the kind of content that a call's output holds."""
    traits = traits_of(call.name)
    return "view" if traits.shows_files(call.arguments) else traits.output_content


def reuse_factors(recalls: Recalls) -> Mapping[str, float]:
    """Return how much to raise the probability in this session, by kind of content. Each factor is above 1 and at most
    `MAX_REUSE_FACTOR`. Kinds that are not recalled more often than expected are omitted."""
    factors = {
        content: (recalled_count + PRIOR_RECALLS)
        / (EXPECTED_RECALL_SHARE * recalls.left.get(content, 0) + PRIOR_RECALLS)
        for content, recalled_count in Counter(recalls.back.values()).items()
    }
    return {content: min(factor, MAX_REUSE_FACTOR) for content, factor in factors.items() if factor > 1}


def with_removed_outputs(recalls: Recalls, contents: Iterable[str]) -> Recalls:
    """Count outputs that were masked or cut. `contents`: the kind of content of each output."""
    counts = Counter(contents)
    return replace(recalls, left={**recalls.left, **(counts + Counter(recalls.left))}) if counts else recalls


_FIRST_RESULT_REF = regex(r"^\[recall:([^\]\s]+)\]", re.MULTILINE)
"""The reference of the first result of a search."""


def add_outputs(conversation: Conversation, message: User) -> Conversation:
    """Add `message`, which holds the outputs of the last calls, to the conversation. Also record which outputs were
    truncated, and which earlier outputs were recalled. Each output is recorded only once."""
    calls = {call.id: call for call in conversation.unanswered_calls}
    answered = [
        (executed_call(calls[output.call_id], output), output) for output in message.outputs if output.call_id in calls
    ]
    recalls = with_removed_outputs(
        conversation.recalls, (content_kind(call) for call, output in answered if output.is_part)
    )
    recalled_refs = {_recalled_ref(call, output) for call, output in answered} - recalls.back.keys()
    if recalled_refs - {""}:
        recalled_kinds = {
            numbered.ref: content_kind(numbered.call)
            for numbered in numbered_outputs(conversation)
            if numbered.ref in recalled_refs
            and (numbered.output.is_part or numbered.output.call_id in conversation.masked)
        }
        recalls = replace(recalls, back={**recalls.back, **recalled_kinds})
    return replace(conversation, recalls=recalls).plus(message)


def _recalled_ref(call: ToolCall, output: ToolOutput) -> str:
    """Return the reference of the output that a call recalled: the reference named in the call, or that of the first
    search result. Empty if nothing was recalled."""
    if role_of(call.name) != "recall_output" or output.status != "done":
        return ""
    ref = call.arguments.get("ref_id")
    if not ref and (match := _FIRST_RESULT_REF.search(output.text)):
        ref = match[1]
    try:
        reference = parse_reference(ref) if isinstance(ref, str) else None
    except BadReference:
        return ""
    if reference is None or reference.session != CURRENT_SESSION or not isinstance(reference.target, OutputRef):
        return ""
    return str(reference.target)
