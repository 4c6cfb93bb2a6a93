"""Estimates how likely the model is to need an output again once the view shows only part of it or a stub. Also tracks
what the model has recalled so far.

The curves are maximum-likelihood fits to 31 recorded sessions, for outputs longer than their stub. An output does not
count as needed if the names in its stub were enough. The probability depends on the kind of content, its size, later
changes to the file, and the idle time. Idle time is the number of requests since the output was added, or since the
last mention of a name that few other outputs contain (`python -m bench.context.fit FOLDER`).

If a session's model recalls a kind of content more often than expected, the session uses higher curves. Outputs covered
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
class ReuseCurve:
    """The probability that an output is needed again: `initial_probability · e^(-idle_requests / decay_requests)`."""

    initial_probability: float
    decay_requests: float
    """Decay constant, in requests."""

    def probability_after(self, idle_requests: int) -> float:
        return self.initial_probability * math.exp(-idle_requests / self.decay_requests)


CONTENT_CURVES: dict[OutputContent, ReuseCurve] = {
    "view": ReuseCurve(0.035, 8),
    "search": ReuseCurve(0.105, 16),
    "report": ReuseCurve(0.065, 8),
    "change": ReuseCurve(0.0, 1),
    "program": ReuseCurve(0.025, 5),
    "other": ReuseCurve(0.105, 1),
}
FILE_CURVES: tuple[tuple[int, ReuseCurve], ...] = (
    (600, ReuseCurve(0.3, 13)),
    (2_400, ReuseCurve(0.32, 22)),
    (6_000, ReuseCurve(0.51, 17)),
    (1 << 62, ReuseCurve(0.6, 27)),
)
"""Curves for unchanged files, by maximum size in tokens."""
STALE_FILE_CURVE = ReuseCurve(0.13, 12)
"""Curve for a file that was changed or read again after this output."""

MIN_AGE_REQUESTS = 3
"""Number of requests for which an output always stays in view. The curves apply only to older outputs."""
EXPECTED_RECALL_SHARE = 0.1
"""Expected share of masked or cut outputs that are recalled, if the curves are accurate."""
PRIOR_RECALLS = 1.0
"""Weight of the curves compared with the session's own recalls, as a number of recalls. From the second recall on, the
session's own count for more."""
MAX_REUSE_FACTOR = 4.0
"""Maximum factor by which a session's recalls can raise the curves."""


def content_kind(call: ToolCall) -> OutputContent:
    """Return the kind of content that a call's output holds."""
    traits = traits_of(call.name)
    return "view" if traits.shows_files(call.arguments) else traits.output_content


def reuse_probability(content: OutputContent, tokens: int, idle_requests: int, *, is_stale: bool) -> float:
    """Return the probability that an output of `tokens` tokens is needed again after `idle_requests` requests.
    `is_stale`: whether the file was changed or read again later."""
    if content != "file":
        return CONTENT_CURVES[content].probability_after(idle_requests)
    if is_stale:
        return STALE_FILE_CURVE.probability_after(idle_requests)
    return next(curve for max_tokens, curve in FILE_CURVES if tokens <= max_tokens).probability_after(idle_requests)


def reuse_factors(recalls: Recalls) -> Mapping[str, float]:
    """Return how much to raise the curves in this session, by kind of content. Each factor is above 1 and at most
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
