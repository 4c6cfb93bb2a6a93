"""What hooks say of a call, and what follows from that beside what the policy says: they may forbid and ask, and allow
what an allow rule could. Pure."""

from dataclasses import replace
from typing import Literal

from agent.calls.policy import PermissionRequest, Policy, Rule, Ruling, decide
from agent.messages import ToolCall
from tools.lazy import dataclass
from tools.outputs.extent import shortened

_LONGEST = 200
"""Characters of a reason that people are shown with the call."""


@dataclass(frozen=True, slots=True)
class HookWord:
    """What hooks say of a call that is to run."""

    verdict: Literal["none", "allow", "ask", "deny"] = "none"
    reason: str = ""
    is_own: bool = True
    """Programs of the user's own say it, not what a project brings."""


NO_WORD = HookWord()


@dataclass(frozen=True, slots=True)
class HookedCall:
    """A call as hooks want it."""

    call: ToolCall
    word: HookWord = NO_WORD
    is_changed: bool = False


def ruled(asked: PermissionRequest, policy: Policy, word: HookWord = NO_WORD) -> Ruling:
    """Whether the call may run, with what hooks say of it. Where they allow it, it is as if a rule allowed its tool:
    what is denied, in doubt or asked about in spite of such a rule stays so. What a project brings allows nothing."""
    ruling = decide(asked, policy)
    first = shortened(" ".join(word.reason.split()), _LONGEST)
    because = f": {first}" if first else ""
    if ruling.verdict == "deny" or word.verdict == "none":
        return ruling
    if word.verdict == "deny":
        return Ruling("deny", f"a hook refuses it{because}", reason=f"a hook refuses it: {word.reason.rstrip('.')}")
    if word.verdict == "ask":
        return Ruling("ask", f"a hook wants you to be asked{because}")
    if ruling.verdict == "allow" or not word.is_own:
        return ruling
    allowed = decide(asked, replace(policy, allow=(*policy.allow, Rule(asked.tool))))
    return replace(allowed, rule=f"a hook of yours allows it{because}") if allowed.verdict == "allow" else ruling
