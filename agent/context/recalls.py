"""What the model recalls of outputs that the view shows in part or as a stub. Pure.

Content covered by a summary does not count, because masking did not remove it.
"""

import re
from dataclasses import replace

from ebbtide.agent.context.mask import numbered_outputs
from ebbtide.agent.context.references import CURRENT_SESSION, BadReference, OutputRef, parse_reference
from ebbtide.agent.context.reread_model import content_of, with_departed
from ebbtide.agent.context.tool_selection import executed_call
from ebbtide.agent.messages import Conversation, ToolCall, ToolOutput, User
from ebbtide.tools.lazy import regex

_BRINGERS = {"recall", "read_result", "tool_output_cache", "tool_output_cache_grep"}
_FIRST_FOUND = regex(r"^\[recall:([^\]\s]+)\]", re.MULTILINE)
"""The reference of a search's first result."""


def with_outputs(conversation: Conversation, message: User) -> Conversation:
    """Return the conversation with the outputs of its last calls, and record which outputs were truncated and which
    earlier ones were recalled, each once."""
    calls = {call.id: call for call in conversation.unanswered_calls}
    answered = [(executed_call(calls[one.call_id], one), one) for one in message.outputs if one.call_id in calls]
    recalls = with_departed(conversation.recalls, (content_of(call) for call, output in answered if output.is_part))
    wanted = {_recalled_ref(call, output) for call, output in answered} - recalls.back.keys()
    if wanted - {""}:
        back = {
            found.ref: content_of(found.call)
            for found in numbered_outputs(conversation)
            if found.ref in wanted and (found.output.is_part or found.output.call_id in conversation.masked)
        }
        recalls = replace(recalls, back={**recalls.back, **back})
    return replace(conversation, recalls=recalls).plus(message)


def _recalled_ref(call: ToolCall, output: ToolOutput) -> str:
    """Return the reference of the output that a call recalled: the one it names, or its first search result. Empty if
    it recalled none."""
    if call.name not in _BRINGERS or output.status != "done":
        return ""
    ref = call.arguments.get("ref_id")
    if not ref and call.name == "recall" and (found := _FIRST_FOUND.search(output.text)):
        ref = found[1]
    try:
        reference = parse_reference(ref) if isinstance(ref, str) else None
    except BadReference:
        return ""
    if reference is None or reference.session != CURRENT_SESSION or not isinstance(reference.target, OutputRef):
        return ""
    return str(reference.target)
