"""The result of a sub-agent, collected from its session's events and formatted for the parent's model. No I/O."""

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
from ebbtide.tools.bash import Bash
from ebbtide.tools.grep import Grep
from ebbtide.tools.lazy import dataclass, regex
from ebbtide.tools.outputs.extent import ellipsize, join_limited
from ebbtide.tools.read import Read
from ebbtide.tools.tool_traits import role_of
from ebbtide.tools.web_fetch import WebFetch

MAX_ANSWER_CHARS = 16_384
"""Maximum length of an answer as shown to the model, in characters. The full answer is stored."""
MAX_LISTED_FILES, MAX_REFERENCES, MAX_FINDINGS = 20, 12, 50
_OWN_REFERENCE = regex(r"(?<![\w/])r([1-9]\d{0,5})(?!\w)")
_FINDINGS_HEADING = regex(r"^[#* ]*findings[*: ]*$", 2)  # IGNORECASE
_END_TEXTS: Mapping[str, str] = {
    "answered": "answered", "interrupted": "was stopped by the user",
    "step_limit": "was stopped at its request limit",
    "cost_limit": "was stopped at the cost limit", "context_limit": "has filled its context window",
    "repeated_calls": "was stopped because it kept making the same call",
    "repeated_text": "was stopped because it kept repeating itself", "failed": "has failed",
}  # fmt: skip


@dataclass(slots=True)
class AgentProgress:
    """The progress of a sub-agent's session, collected from its events."""

    end: AgentEnd = "interrupted"
    answer: str = ""
    usage: Usage = field(default_factory=Usage)
    cost: float | None = 0.0
    step_count: int = 0
    changed_files: dict[str, None] = field(default_factory=dict)
    read_files: dict[str, None] = field(default_factory=dict)
    running_calls: dict[str, str] = field(default_factory=dict)
    """One line for each running call, by call id."""
    call_lines: list[str] = field(default_factory=list)
    """One line for each call that has an output, in order."""

    def record(self, event: Event) -> None:
        match event:
            case StepStarted():
                self.step_count += 1
            case ReplyFinished(usage=usage, cost=cost):
                self.usage += usage
                self.cost = None if cost is None or self.cost is None else self.cost + cost
            case ToolStarted(call_id=call_id, name=name, arguments=arguments):
                self.running_calls[call_id] = call_line(name, arguments)
                path = arguments.get("path") or arguments.get("file_path")
                if role_of(name) == "read_file" and isinstance(path, str):
                    self.read_files[path] = None
            case ToolFinished(call_id=call_id, name=name, changed=changed):
                self.call_lines.append(self.running_calls.pop(call_id, name))
                self.changed_files.update(dict.fromkeys(changed))
            case TurnFinished(end=end, text=text):
                self.end, self.answer = end, text
            case TurnFailed(message=message):
                self.end, self.answer = "failed", message
            case _:
                pass


def call_line(name: str, arguments: Mapping[str, object]) -> str:
    """Format a call as one short line."""
    values = " ".join(value if isinstance(value, str) else json.dumps(value) for value in arguments.values())
    return ellipsize(" ".join(f"{name} {values}".split()), 100)


def create_finished_event(
    progress: AgentProgress, agent_id: str, call_id: str, name: str, project_name: str, seconds: float
) -> AgentFinished:
    """Build the final event of a sub-agent. References in its answer to its own outputs are rewritten, so that other
    sessions can resolve them."""
    reference_prefix = f"ebb://{project_name}/{agent_id}"
    answer = _OWN_REFERENCE.sub(
        lambda match: f"{reference_prefix}/{match[0]}" if int(match[1]) <= len(progress.call_lines) else match[0],
        progress.answer.strip(),
    )
    references = [
        AgentReference(f"{reference_prefix}/r{number}", line)
        for number, line in enumerate(progress.call_lines, 1)
        if line.partition(" ")[0] in (Read.name, Grep.name, Bash.name, WebFetch.name)
    ]
    return AgentFinished(
        agent_id,
        call_id,
        name,
        progress.end if progress.end in get_args(AgentEnd) else "failed",
        answer,
        findings_in(answer),
        tuple(progress.changed_files),
        tuple(progress.read_files),
        tuple(references),
        progress.step_count,
        progress.usage,
        progress.cost,
        round(seconds, 1),
    )


def findings_in(answer: str) -> tuple[str, ...]:
    """Return the list items under the heading `Findings` in an answer."""
    lines = iter(answer.splitlines())
    for line in lines:
        if _FINDINGS_HEADING.fullmatch(line.strip()):
            break
    findings: list[str] = []
    for line in lines:
        text = line.strip()
        if text.startswith(("- ", "* ")):
            findings.append(text[2:].strip())
        elif text and findings:
            break
    return tuple(findings[:MAX_FINDINGS])


def result_texts(finished_event: AgentFinished) -> tuple[str, str]:
    """Format the result for the parent's model. Also return the full text if the result was shortened, otherwise an
    empty string."""
    cost_text = "" if finished_event.cost is None else f", ${finished_event.cost:.4f}"
    heading = (
        f"[Agent {finished_event.name} {_END_TEXTS[finished_event.end]}: {finished_event.steps} requests, "
        f"{finished_event.usage.total:,} tokens{cost_text}]"
    )
    answer = finished_event.answer or "(no answer)"
    details = _details_text(finished_event)
    full_text = "\n".join(filter(None, (heading, answer, details)))
    if len(answer) <= MAX_ANSWER_CHARS:
        return full_text, ""
    cut_answer = f"{answer[:MAX_ANSWER_CHARS]}\n[… {len(answer) - MAX_ANSWER_CHARS:,} more characters]"
    return "\n".join(filter(None, (heading, cut_answer, details))), full_text


def _details_text(finished_event: AgentFinished) -> str:
    lines = []
    if finished_event.changed:
        lines.append(f"Files changed: {join_limited(list(finished_event.changed), MAX_LISTED_FILES)}")
    if finished_event.read:
        lines.append(f"Files read: {join_limited(list(finished_event.read), MAX_LISTED_FILES)}")
    if finished_event.references:
        lines.append("What it saw, as references for `recall`:")
        lines += [
            f"{reference.reference} {reference.call}" for reference in finished_event.references[-MAX_REFERENCES:]
        ]
    return "\n".join(lines)
