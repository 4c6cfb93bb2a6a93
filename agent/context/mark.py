"""What a session remembers of its last request, to compare with the first one after a new start. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from agent.context.budget import Window
from agent.context.prefix import Fingerprint, digest
from agent.context.prompt import Section

NAMES: Mapping[str, str] = {
    "base": "the program's own instructions",
    "project": "AGENT.md",
    "memories": "memory.md",
    "skills": "skills",
    "environment": "date, branch or folder",
}
"""What a section of the system text is for people."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A request as digests, small enough to be written with every step."""

    model: str
    settings: str
    tools: str
    system: str
    sections: Mapping[str, str] = field(default_factory=dict)
    """Of the system text, by name."""
    messages: str = ""
    """Of as many messages as `count` says; none where the view was rewritten since."""
    count: int = 0
    window: Window | None = None
    """What the request had to fit into."""
    tool_tokens: int | None = None
    """What the tool definitions took that were offered."""
    held_back: tuple[int, int] = (0, 0)
    """How many tools were not, and the tokens of their definitions."""


def mark_of(sent: Fingerprint, sections: Sequence[Section], *, is_rewritten: bool = False) -> Mark:
    """The last request; `is_rewritten`: the next one shows other messages."""
    by_name = {section.name: digest(section.text.encode("utf-8", "surrogatepass")) for section in sections}
    count = 0 if is_rewritten else len(sent.messages)
    return Mark(sent.model, sent.settings, sent.tools, sent.system, by_name, digest_of(sent, count), count)


def digest_of(sent: Fingerprint, count: int) -> str:
    """Of the first messages of a request in one digest; nothing of none."""
    parts = (part for message in sent.messages[:count] for part in message)
    return digest(" ".join(parts).encode()) if count else ""


def changes_since(mark: Mark, sent: Fingerprint, sections: Sequence[Section]) -> tuple[str, ...]:
    """What the first request of a session that goes on says otherwise than the last before, each in a few words."""
    found: list[str] = []
    if mark.model != sent.model:
        found.append("model")
    if mark.settings != sent.settings:
        found.append("settings")
    if mark.system != sent.system:
        now = mark_of(sent, sections).sections
        names = [name for name in NAMES if now.get(name) != mark.sections.get(name)]
        found.append(f"system ({', '.join(NAMES[name] for name in names)})" if names else "system")
    if mark.tools != sent.tools:
        found.append("tools")
    if mark.messages != digest_of(sent, mark.count):
        found.append("messages")
    return tuple(found)
