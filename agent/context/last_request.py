"""What a session remembers of its last request, to compare with the first one after a new start. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from hashlib import blake2b

from ebbtide.agent.context.budget import Window
from ebbtide.agent.context.incremental import IncrementalFold
from ebbtide.agent.context.prefix import DIGEST_SIZE, Fingerprint, digest
from ebbtide.agent.context.prompt import Section
from ebbtide.agent.context.server_truncation import CountRecord
from ebbtide.tools.lazy import dataclass

NAMES: Mapping[str, str] = {
    "base": "the program's own instructions",
    "project": "instruction files",
    "memories": "memory.md",
    "skills": "skills",
    "environment": "date, mode, branch, folder or who is there",
    "appended": "what was added to it at the start",
}
"""What a section of the system text is for people."""


@dataclass(frozen=True, slots=True)
class RequestMark:
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
    server: str = ""
    """Digest of the address that the request went to."""
    believed: int | None = None
    """The size that the window was believed to have before the server showed a smaller one; None where it did not."""
    record: CountRecord | None = None
    """What the server's counts had been like, so that one that leaves something out is found out as soon as without a
    new start."""
    scale: float = 1.0
    """Tokens that were counted for one that was estimated of messages, before they were rewritten last."""
    misses: int | None = 0
    """Requests that went on from one before, of which nothing was read from a cache; None once something was."""

    def begins_with(self, system: str) -> bool:
        """Whether that was the system text of the request."""
        return self.system == digest(system.encode("utf-8", "surrogatepass"))


def mark_of(
    sent: Fingerprint, sections: Sequence[Section], *, is_rewritten: bool = False, chain: "RequestChain | None" = None
) -> RequestMark:
    """The last request; `is_rewritten`: the next one shows other messages. With the session's `chain` it costs as much
    as the request has grown."""
    by_name = {section.name: digest(section.text.encode("utf-8", "surrogatepass")) for section in sections}
    count = 0 if is_rewritten else len(sent.messages)
    messages = chain.of(sent.messages) if chain is not None and count else digest_of(sent, count)
    return RequestMark(sent.model, sent.settings, sent.tools, sent.system, by_name, messages, count)


def digest_of(sent: Fingerprint, count: int) -> str:
    """Of the first messages of a request in one digest; nothing of none."""
    parts = (part for message in sent.messages[:count] for part in message)
    return digest(" ".join(parts).encode()) if count else ""


@dataclass(slots=True)
class RequestDelta:
    """A digest of texts with a blank between two, as far as they have come."""

    hasher: blake2b = field(default_factory=lambda: blake2b(digest_size=DIGEST_SIZE))
    is_empty: bool = True

    def plus(self, texts: tuple[str, ...]) -> "RequestDelta":
        for text in texts:
            self.hasher.update(text.encode() if self.is_empty else f" {text}".encode())
            self.is_empty = False
        return self


class RequestChain:
    """What `digest_of` makes of all messages of a request, extended with the next."""

    def __init__(self) -> None:
        self._digest: IncrementalFold[RequestDelta, tuple[str, ...]] = IncrementalFold(RequestDelta, RequestDelta.plus)

    def of(self, messages: tuple[tuple[str, ...], ...]) -> str:
        return self._digest.of(messages).hasher.copy().hexdigest() if messages else ""


def changes_since(mark: RequestMark, sent: Fingerprint, sections: Sequence[Section]) -> tuple[str, ...]:
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
