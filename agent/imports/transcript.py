"""What the readers give: a transcript of another agent as it lies there, and what was said in it, a value at a time."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from ebbtide.agent.imports.agent_folders import AgentFolders, AgentName
from ebbtide.agent.messages import Image
from ebbtide.tools.lazy import dataclass


@dataclass(frozen=True, slots=True)
class ForeignTranscript:
    """A conversation of another agent, not read yet."""

    agent: AgentName
    id: str
    """As the agent itself names it."""
    path: Path
    size: int
    """Bytes."""
    updated: float
    """When its file was, in Unix seconds."""
    project: str
    """The folder in which it was held; empty where nothing says so."""
    mark: str
    """Another one as soon as the transcript is another."""


@dataclass(frozen=True, slots=True)
class ForeignTranscriptFile:
    """A file that is one transcript, as it lies there."""

    path: Path
    size: int
    updated: float
    mark: str

    def of(self, agent: AgentName, id: str, project: str) -> ForeignTranscript:
        """The transcript that it is, of that agent, by that id and of that folder."""
        return ForeignTranscript(agent, id, self.path, self.size, self.updated, project, self.mark)


@dataclass(frozen=True, slots=True)
class UserEntry:
    """By the user."""

    text: str
    at: float
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class ProgramEntry:
    """By the program, not by the user."""

    text: str
    at: float


@dataclass(frozen=True, slots=True)
class ReplyEntry:
    """A part of what the model said. Those with one key are one reply, whatever came between them."""

    kind: Literal["text", "thought"]
    text: str
    at: float
    key: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class CallEntry:
    """A call of a tool, under the name and with the arguments of that agent."""

    id: str
    name: str
    arguments: Mapping[str, object]
    at: float
    key: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class OutputEntry:
    """What a call gave back."""

    id: str
    text: str
    at: float
    status: Literal["done", "failed", "denied", "interrupted"] = "done"
    images: tuple[Image, ...] = ()


@dataclass(frozen=True, slots=True)
class SummaryEntry:
    """From here on the model was shown this in the place of all that came before."""

    text: str
    at: float


Entry: TypeAlias = UserEntry | ProgramEntry | ReplyEntry | CallEntry | OutputEntry | SummaryEntry


@dataclass(frozen=True, slots=True)
class OpenTranscript:
    """A transcript that is read."""

    entries: Iterator[Entry]
    """In order, as they are read from the file."""
    project: str
    title: str
    """Its own one; empty where it has none."""
    created: float
    updated: float
    """Both in Unix seconds."""
    version: str = ""
    """Of the program that wrote it."""


class TranscriptReader(Protocol):
    """The transcripts of one agent."""

    def find_transcripts(
        self, folders: AgentFolders, project: Path, troubles: "ImportProblems"
    ) -> Iterator[ForeignTranscript]:
        """Those that are there, without reading more of each than its beginning."""

    def open_transcript(self, transcript: ForeignTranscript, troubles: "ImportProblems") -> OpenTranscript:
        """Raises `UnreadableTranscript`."""


class UnreadableTranscript(Exception):
    """Why nothing of a transcript can be had, in words that go on after its name."""


class ImportProblems:
    """What could not be taken, and what is left out on purpose, counted by what it was."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.left_out: dict[str, int] = {}

    def add(self, what: str, count: int = 1) -> None:
        """`what`: in the plural, `lines that cannot be read`."""
        if count:
            self.counts[what] = self.counts.get(what, 0) + count

    def leave_out(self, what: str, count: int = 1) -> None:
        """Nothing is wrong with it."""
        if count:
            self.left_out[what] = self.left_out.get(what, 0) + count

    @property
    def line(self) -> str:
        """All that could not be taken in one line; empty when there was nothing."""
        return counts_line(self.counts)


def counts_line(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{what} ({count:,})" for what, count in counts.items())


def files_there(paths: Iterable[Path], troubles: ImportProblems) -> Iterator[ForeignTranscriptFile]:
    """The files that can be looked at, in the order of their names; the others are counted."""
    for path in sorted(paths):
        try:
            status = path.stat()
        except OSError:
            troubles.add("files that cannot be read")
        else:
            yield ForeignTranscriptFile(path, status.st_size, status.st_mtime, f"{status.st_size}:{status.st_mtime_ns}")
