"""Digests of a session's last request, compared with the first one after a resume. Pure."""

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
    "base": "built-in instructions",
    "project": "instruction files",
    "memories": "memory.md",
    "skills": "skills",
    "environment": "date, mode, branch, folder or user presence",
    "appended": "text added at the start",
}
"""Names of the system prompt's sections for people."""


@dataclass(frozen=True, slots=True)
class RequestMark:
    """A request as digests, small enough to be written with every step."""

    model: str
    settings: str
    tools: str
    system: str
    sections: Mapping[str, str] = field(default_factory=dict)
    """Digests of the sections of the system prompt, by name."""
    messages: str = ""
    """Digest of the first `count` messages; empty if the view was rewritten since."""
    count: int = 0
    window: Window | None = None
    """The window that the request had to fit into."""
    tool_tokens: int | None = None
    """Tokens of the tool definitions offered."""
    held_back: tuple[int, int] = (0, 0)
    """Number of deferred tools, and tokens of their definitions."""
    server: str = ""
    """Digest of the server address that the request went to."""
    believed: int | None = None
    """Assumed size of the window before the server revealed a smaller one; None if it did not."""
    record: CountRecord | None = None
    """History of the server's counts, so that a truncating server is detected as soon after a resume as without one."""
    scale: float = 1.0
    """Actual tokens per estimated token of messages before the last rewrite."""
    misses: int | None = 0
    """Number of follow-up requests that read nothing from a cache; None once one did."""

    def begins_with(self, system: str) -> bool:
        """Whether `system` is the system prompt of the request."""
        return self.system == digest(system.encode("utf-8", "surrogatepass"))


def mark_of(
    sent: Fingerprint, sections: Sequence[Section], *, is_rewritten: bool = False, chain: "RequestChain | None" = None
) -> RequestMark:
    """Return the mark of the last request. `is_rewritten`: the next request shows other messages. With the session's
    `chain` the work is proportional to the growth of the request."""
    by_name = {section.name: digest(section.text.encode("utf-8", "surrogatepass")) for section in sections}
    count = 0 if is_rewritten else len(sent.messages)
    messages = chain.of(sent.messages) if chain is not None and count else digest_of(sent, count)
    return RequestMark(sent.model, sent.settings, sent.tools, sent.system, by_name, messages, count)


def digest_of(sent: Fingerprint, count: int) -> str:
    """Return one digest of the first `count` messages of a request; empty if `count` is 0."""
    parts = (part for message in sent.messages[:count] for part in message)
    return digest(" ".join(parts).encode()) if count else ""


@dataclass(slots=True)
class RequestDelta:
    """A running digest of texts separated by blanks."""

    hasher: blake2b = field(default_factory=lambda: blake2b(digest_size=DIGEST_SIZE))
    is_empty: bool = True

    def plus(self, texts: tuple[str, ...]) -> "RequestDelta":
        for text in texts:
            self.hasher.update(text.encode() if self.is_empty else f" {text}".encode())
            self.is_empty = False
        return self


class RequestChain:
    """Computes `digest_of` for all messages of a request incrementally."""

    def __init__(self) -> None:
        self._digest: IncrementalFold[RequestDelta, tuple[str, ...]] = IncrementalFold(RequestDelta, RequestDelta.plus)

    def of(self, messages: tuple[tuple[str, ...], ...]) -> str:
        return self._digest.of(messages).hasher.copy().hexdigest() if messages else ""


def changes_since(mark: RequestMark, sent: Fingerprint, sections: Sequence[Section]) -> tuple[str, ...]:
    """Return what the first request of a resumed session changes against the last one, in a few words each."""
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
