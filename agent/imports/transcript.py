"""Types shared by the transcript readers: transcripts of other agents, and their entries."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from ebbtide.agent.imports.agent_folders import AgentFolders, AgentName
from ebbtide.agent.messages import Image
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class ForeignTranscript:
    """A conversation of another agent, not yet read."""

    agent: AgentName
    id: str
    """The other agent's id of it."""
    path: Path
    size: int
    """Size in bytes."""
    updated: float
    """Modification time of its file, in Unix seconds."""
    project: str
    """The working folder of the conversation; empty if unknown."""
    mark: str
    """A value that changes whenever the transcript changes."""


@dataclass(frozen=True, slots=True)
class ForeignTranscriptFile:
    """A file that contains one transcript."""

    path: Path
    size: int
    updated: float
    mark: str

    def of(self, agent: AgentName, id: str, project: str) -> ForeignTranscript:
        """Return the transcript in this file, with its agent, id and project."""
        return ForeignTranscript(agent, id, self.path, self.size, self.updated, project, self.mark)


@dataclass(frozen=True, slots=True)
class UserEntry:
    """A message from the user."""

    text: str
    at: float
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramEntry:
    """A message from the program."""

    text: str
    at: float


@dataclass(frozen=True, slots=True)
class ReplyEntry:
    """A part of the model's reply. Parts with the same key belong to one reply."""

    kind: Literal["text", "thought"]
    text: str
    at: float
    key: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class CallEntry:
    """A tool call, with the name and arguments used by that agent."""

    id: str
    name: str
    arguments: Mapping[str, object]
    at: float
    key: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class OutputEntry:
    """The output of a call."""

    id: str
    text: str
    at: float
    status: Literal["done", "failed", "denied", "interrupted"] = "done"
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class SummaryEntry:
    """A compaction: from here on the model saw this summary instead of everything before."""

    text: str
    at: float


Entry: TypeAlias = UserEntry | ProgramEntry | ReplyEntry | CallEntry | OutputEntry | SummaryEntry


@dataclass(frozen=True, slots=True)
class OpenTranscript:
    """A transcript opened for reading."""

    entries: Iterator[Entry]
    """Entries in order, read lazily from the file."""
    project: str
    title: str
    """Its own title; empty if it has none."""
    created: float
    updated: float
    """Both in Unix seconds."""
    version: str = ""
    """Version of the program that wrote it."""


class TranscriptReader(Protocol):
    """Finds and opens the transcripts of one agent."""

    def find_transcripts(
        self, folders: AgentFolders, project: Path, troubles: "ImportProblems"
    ) -> Iterator[ForeignTranscript]:
        """Yield the existing transcripts, reading only the start of each."""

    def open_transcript(self, transcript: ForeignTranscript, troubles: "ImportProblems") -> OpenTranscript:
        """Open a transcript. Raises `UnreadableTranscript`."""


class UnreadableTranscript(Exception):
    """Why a transcript cannot be read, phrased to follow its name."""


class ImportProblems:
    """Counts what could not be imported and what was skipped on purpose, by kind."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.left_out: dict[str, int] = {}

    def add(self, what: str, count: int = 1) -> None:
        """Count a problem. `what` is in the plural, such as `lines that cannot be read`."""
        if count:
            self.counts[what] = self.counts.get(what, 0) + count

    def leave_out(self, what: str, count: int = 1) -> None:
        """Count something skipped on purpose."""
        if count:
            self.left_out[what] = self.left_out.get(what, 0) + count

    @property
    def line(self) -> str:
        """All problems in one line; empty if there are none."""
        return counts_line(self.counts)


def counts_line(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{what} ({count:,})" for what, count in counts.items())


def files_there(paths: Iterable[Path], troubles: ImportProblems) -> Iterator[ForeignTranscriptFile]:
    """Yield the readable files, sorted by name; the others are counted."""
    for path in sorted(paths):
        try:
            status = path.stat()
        except OSError:
            troubles.add("files that cannot be read")
        else:
            yield ForeignTranscriptFile(path, status.st_size, status.st_mtime, f"{status.st_size}:{status.st_mtime_ns}")
