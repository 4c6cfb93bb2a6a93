"""A session's last request as digests, for comparison with the first request after a resume."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from hashlib import blake2b

from ebbtide.agent.budget.prefix import DIGEST_BYTES, RequestFingerprint, digest
from ebbtide.agent.budget.request_budget import Window
from ebbtide.agent.budget.server_truncation import CountRecord
from ebbtide.agent.prompt.build import PromptSection
from ebbtide.agent.tokens.incremental import IncrementalFold
from ebbtide.tools.lazy import dataclass

SECTION_NAMES: Mapping[str, str] = {
    "base": "built-in instructions",
    "project": "instruction files",
    "memories": "memory.md",
    "skills": "skills",
    "environment": "date, mode, branch, folder or user presence",
    "appended": "text added at the start",
}
"""Display names of the system prompt's sections."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request as digests, small enough to be saved with every step."""

    model: str
    settings: str
    tools: str
    system: str
    sections: Mapping[str, str] = field(default_factory=dict)
    """Digests of the sections of the system prompt, by name."""
    messages: str = ""
    """Digest of the first `count` messages; empty if the view has been rewritten since."""
    count: int = 0
    window: Window | None = None
    """The window into which the request had to fit."""
    tool_tokens: int | None = None
    """Tokens of the tool definitions offered."""
    held_back: tuple[int, int] = (0, 0)
    """Number of deferred tools, and tokens of their definitions."""
    server: str = ""
    """Digest of the address of the server that received the request."""
    believed: int | None = None
    """Window size that was assumed before the server revealed a smaller one; None if it never did."""
    record: CountRecord | None = None
    """History of the server's token counts. It is saved so that detection of a truncating server need not start over
    after a resume."""
    scale: float = 1.0
    """Ratio of actual to estimated tokens of messages, before the last rewrite."""
    misses: int | None = 0
    """Number of follow-up requests that read nothing from the cache; None once any request has read from the cache."""

    def has_system_prompt(self, system: str) -> bool:
        """Whether `system` is the system prompt of the request."""
        return self.system == digest(system.encode("utf-8", "surrogatepass"))


def create_request_record(
    request: RequestFingerprint,
    sections: Sequence[PromptSection],
    *,
    is_rewritten: bool = False,
    digester: "MessagesDigester | None" = None,
) -> RequestRecord:
    """Build the record of the last request. `is_rewritten`: the view has been rewritten since, so the next request
    contains other messages. With the session's `digester`, only the new messages are digested."""
    section_digests = {section.name: digest(section.text.encode("utf-8", "surrogatepass")) for section in sections}
    count = 0 if is_rewritten else len(request.messages)
    messages = (
        digester.digest_for(request.messages) if digester is not None and count else messages_digest(request, count)
    )
    return RequestRecord(
        request.model, request.settings, request.tools, request.system, section_digests, messages, count
    )


def messages_digest(request: RequestFingerprint, count: int) -> str:
    """Return a digest of the first `count` messages of a request; empty if `count` is 0."""
    parts = (part for message in request.messages[:count] for part in message)
    return digest(" ".join(parts).encode()) if count else ""


@dataclass(slots=True)
class RunningDigest:
    """A running digest of strings, separated by spaces."""

    hasher: blake2b = field(default_factory=lambda: blake2b(digest_size=DIGEST_BYTES))
    is_empty: bool = True

    def add(self, texts: tuple[str, ...]) -> "RunningDigest":
        for text in texts:
            self.hasher.update(text.encode() if self.is_empty else f" {text}".encode())
            self.is_empty = False
        return self


class MessagesDigester:
    """Computes the digest of all messages of a request incrementally."""

    def __init__(self) -> None:
        self._digest: IncrementalFold[RunningDigest, tuple[str, ...]] = IncrementalFold(
            RunningDigest, RunningDigest.add
        )

    def digest_for(self, messages: tuple[tuple[str, ...], ...]) -> str:
        return self._digest.value_for(messages).hasher.copy().hexdigest() if messages else ""


def changes_since(
    mark: RequestRecord, request: RequestFingerprint, sections: Sequence[PromptSection]
) -> tuple[str, ...]:
    """Describe, in short phrases, how the first request of the resumed session differs from the last request."""
    changes: list[str] = []
    if mark.model != request.model:
        changes.append("model")
    if mark.settings != request.settings:
        changes.append("settings")
    if mark.system != request.system:
        current_sections = create_request_record(request, sections).sections
        names = [name for name in SECTION_NAMES if current_sections.get(name) != mark.sections.get(name)]
        changes.append(f"system ({', '.join(SECTION_NAMES[name] for name in names)})" if names else "system")
    if mark.tools != request.tools:
        changes.append("tools")
    if mark.messages != messages_digest(request, mark.count):
        changes.append("messages")
    return tuple(changes)
