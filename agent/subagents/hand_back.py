"""The result of a sub-agent, collected from its session's events and rendered for the parent's model. Pure."""

import json
from collections.abc import Mapping
from dataclasses import field
from typing import get_args

from ebbtide.agent.events.session import (
    Event,
    ReplyFinished,
    StepStarted,
    ToolFinished,
    ToolStarted,
    TurnFailed,
    TurnFinished,
)
from ebbtide.agent.events.subagents import AgentEnd, AgentFinished, AgentReference
from ebbtide.agent.messages import Usage
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.extent import ellipsize, join_limited

MAX_ANSWER_CHARS = 16_384
"""Maximum characters of an answer that are shown; the full answer is stored."""
MAX_LISTED_FILES, MAX_REFERENCES, MAX_FINDINGS = 20, 12, 50
_OWN_REFERENCE = regex(r"(?<![\w/])r([1-9]\d{0,5})(?!\w)")
_FINDINGS = regex(r"^[#* ]*findings[*: ]*$", 2)  # IGNORECASE
_ENDS: Mapping[str, str] = {
    "answered": "answered", "interrupted": "was stopped by the user",
    "step_limit": "was stopped at its limit of requests",
    "cost_limit": "was stopped since the limit of the cost is reached", "context_limit": "has filled its window",
    "repeated_calls": "was stopped since it did the same again and again",
    "repeated_text": "was stopped since it said the same again and again", "failed": "has failed",
}  # fmt: skip


@dataclass(slots=True)
class AgentWork:
    """Progress of a sub-agent's session."""

    end: AgentEnd = "interrupted"
    answer: str = ""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    steps: int = 0
    changed: dict[str, None] = field(default_factory=dict)
    read: dict[str, None] = field(default_factory=dict)
    calls: dict[str, str] = field(default_factory=dict)
    """Running calls as one line each, by call id."""
    outputs: list[str] = field(default_factory=list)
    """The call for each output, in order."""

    def take(self, event: Event) -> None:
        match event:
            case StepStarted():
                self.steps += 1
            case ReplyFinished(usage=usage, cost=cost):
                self.usage += usage
                self.cost = None if cost is None or self.cost is None else self.cost + cost
            case ToolStarted(call_id=id, name=name, arguments=arguments):
                self.calls[id] = call_line(name, arguments)
                path = arguments.get("path") or arguments.get("file_path")
                if name == "read" and isinstance(path, str):
                    self.read[path] = None
            case ToolFinished(call_id=id, name=name, changed=changed):
                self.outputs.append(self.calls.pop(id, name))
                self.changed.update(dict.fromkeys(changed))
            case TurnFinished(end=end, text=text):
                self.end, self.answer = end, text
            case TurnFailed(message=message):
                self.end, self.answer = "failed", message
            case _:
                pass


def call_line(name: str, arguments: Mapping[str, object]) -> str:
    """Return a call in one short line."""
    told = " ".join(value if isinstance(value, str) else json.dumps(value) for value in arguments.values())
    return ellipsize(" ".join(f"{name} {told}".split()), 100)


def finished_event(work: AgentWork, agent: str, call: str, name: str, project: str, seconds: float) -> AgentFinished:
    """Return the final event. The agent's own references in its answer are rewritten so that other sessions can resolve
    them. `project`: the name of its project."""
    place = f"ebb://{project}/{agent}"
    answer = _OWN_REFERENCE.sub(
        lambda found: f"{place}/{found[0]}" if int(found[1]) <= len(work.outputs) else found[0], work.answer.strip()
    )
    references = [
        AgentReference(f"{place}/r{number}", line)
        for number, line in enumerate(work.outputs, 1)
        if line.partition(" ")[0] in ("read", "grep", "bash", "web_fetch")
    ]
    return AgentFinished(
        agent,
        call,
        name,
        work.end if work.end in get_args(AgentEnd) else "failed",
        answer,
        findings_in(answer),
        tuple(work.changed),
        tuple(work.read),
        tuple(references),
        work.steps,
        work.usage,
        work.cost,
        round(seconds, 1),
    )


def findings_in(answer: str) -> tuple[str, ...]:
    """Return the items of the list under the heading `Findings`."""
    lines = iter(answer.splitlines())
    for line in lines:
        if _FINDINGS.fullmatch(line.strip()):
            break
    found: list[str] = []
    for line in lines:
        text = line.strip()
        if text.startswith(("- ", "* ")):
            found.append(text[2:].strip())
        elif text and found:
            break
    return tuple(found[:MAX_FINDINGS])


def hand_back_text(done: AgentFinished) -> tuple[str, str]:
    """Return the result as the model sees it, and the full text if that is longer, or ""."""
    price = "" if done.cost is None else f", ${done.cost:.4f}"
    head = f"[Agent {done.name} {_ENDS[done.end]}: {done.steps} requests, {done.usage.total:,} tokens{price}]"
    answer = done.answer or "(it said nothing)"
    tail = _tail(done)
    whole = "\n".join(filter(None, (head, answer, tail)))
    if len(answer) <= MAX_ANSWER_CHARS:
        return whole, ""
    cut = f"{answer[:MAX_ANSWER_CHARS]}\n[… {len(answer) - MAX_ANSWER_CHARS:,} characters more]"
    return "\n".join(filter(None, (head, cut, tail))), whole


def _tail(done: AgentFinished) -> str:
    lines = []
    if done.changed:
        lines.append(f"Files changed: {join_limited(list(done.changed), MAX_LISTED_FILES)}")
    if done.read:
        lines.append(f"Files read: {join_limited(list(done.read), MAX_LISTED_FILES)}")
    if done.references:
        lines.append("What it saw, by reference for `recall`:")
        lines += [f"{one.reference} {one.call}" for one in done.references[-MAX_REFERENCES:]]
    return "\n".join(lines)
