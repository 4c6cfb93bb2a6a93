"""Types shared by the transcript readers: transcripts of other agents, and their entries."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from ebbtide.agent.integrations.imports.agent_folders import AgentFolders, AgentName
from ebbtide.agent.messages import Image
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class ImportableTranscript:
    """A conversation of another agent that has not been read yet."""

    agent: AgentName
    id: str
    """The id that the other agent gave it."""
    path: Path
    size: int
    """Size in bytes."""
    updated_at: float
    """Modification time of its file, in Unix seconds."""
    project: str
    """The working folder of the conversation; empty if unknown."""
    version: str
    """A value that changes when the transcript changes."""


@dataclass(frozen=True, slots=True)
class TranscriptFile:
    """A file that contains one transcript."""

    path: Path
    size: int
    updated_at: float
    version: str

    def transcript(self, agent: AgentName, id: str, project: str) -> ImportableTranscript:
        """Return this file as a transcript."""
        return ImportableTranscript(agent, id, self.path, self.size, self.updated_at, project, self.version)


@dataclass(frozen=True, slots=True)
class UserEntry:
    """Text or images from the user."""

    text: str
    timestamp: float
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramEntry:
    """A message from the program."""

    text: str
    timestamp: float


@dataclass(frozen=True, slots=True)
class ReplyEntry:
    """A part of the model's reply. Parts with the same key belong to one reply."""

    kind: Literal["text", "thought"]
    text: str
    timestamp: float
    reply_key: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class CallEntry:
    """A tool call, with the other agent's name and arguments for it."""

    call_id: str
    name: str
    arguments: Mapping[str, object]
    timestamp: float
    reply_key: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class OutputEntry:
    """The output of a call."""

    call_id: str
    text: str
    timestamp: float
    status: Literal["done", "failed", "denied", "interrupted"] = "done"
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class SummaryEntry:
    """A compaction: from here on, the model saw this summary instead of everything before it."""

    text: str
    timestamp: float


TranscriptEntry: TypeAlias = UserEntry | ProgramEntry | ReplyEntry | CallEntry | OutputEntry | SummaryEntry


@dataclass(frozen=True, slots=True)
class OpenedTranscript:
    """A transcript opened for reading."""

    entries: Iterator[TranscriptEntry]
    """Entries in order, read lazily from the file."""
    project: str
    title: str
    """The transcript's own title; empty if it has none."""
    created_at: float
    updated_at: float
    """When it was created and last changed, in Unix seconds."""
    version: str = ""
    """Version of the program that wrote it."""


class TranscriptReader(Protocol):
    """Finds and opens the transcripts of one agent."""

    def find_transcripts(
        self, folders: AgentFolders, project: Path, problems: "ImportProblems"
    ) -> Iterator[ImportableTranscript]:
        """Yield the existing transcripts, reading only the start of each."""

    def open_transcript(self, transcript: ImportableTranscript, problems: "ImportProblems") -> OpenedTranscript:
        """Open a transcript. Raises `UnreadableTranscriptError`."""


class UnreadableTranscriptError(Exception):
    """A transcript cannot be read. The message gives the reason, phrased to follow the transcript's name."""


class ImportProblems:
    """Counts the items that could not be imported and those skipped on purpose, each by kind."""

    def __init__(self) -> None:
        self.problem_counts: dict[str, int] = {}
        self.skipped_counts: dict[str, int] = {}

    def add(self, kind: str, count: int = 1) -> None:
        """Count a problem. `kind`: a plural noun phrase, such as `lines that cannot be read`."""
        if count:
            self.problem_counts[kind] = self.problem_counts.get(kind, 0) + count

    def add_skipped(self, kind: str, count: int = 1) -> None:
        """Count items that were skipped on purpose. `kind`: a plural noun phrase."""
        if count:
            self.skipped_counts[kind] = self.skipped_counts.get(kind, 0) + count

    @property
    def summary(self) -> str:
        """All problems in one line; empty if there are none."""
        return format_counts(self.problem_counts)


def format_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{kind} ({count:,})" for kind, count in counts.items())


def readable_files(paths: Iterable[Path], problems: ImportProblems) -> Iterator[TranscriptFile]:
    """Yield the readable files, sorted by path; unreadable ones are counted as problems."""
    for path in sorted(paths):
        try:
            status = path.stat()
        except OSError:
            problems.add("files that cannot be read")
        else:
            yield TranscriptFile(path, status.st_size, status.st_mtime, f"{status.st_size}:{status.st_mtime_ns}")
