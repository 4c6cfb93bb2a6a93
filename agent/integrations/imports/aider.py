"""Transcripts of aider: one Markdown file per project, with a heading for each session."""

import re
from collections.abc import Iterator
from pathlib import Path

from ebbtide.agent.integrations.imports.agent_folders import AgentFolders
from ebbtide.agent.integrations.imports.json_lines import (
    MAX_LINE_BYTES,
    open_regular_file,
    read_lines,
    text_of,
    unix_time,
)
from ebbtide.agent.integrations.imports.transcript import (
    ForeignTranscript,
    ImportProblems,
    OpenTranscript,
    ProgramEntry,
    ReplyEntry,
    TranscriptEntry,
    UnreadableTranscript,
    UserEntry,
)
from ebbtide.tools.lazy import dataclass, regex

HISTORY_FILE_NAME = ".aider.chat.history.md"
_SESSION_HEADING = regex(rb"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*\Z")
_MAX_TEXT_CHARS = 1 << 20
"""Number of characters after which a text continues in another entry."""


@dataclass(frozen=True, slots=True)
class _Section:
    """The part of the file that contains one session."""

    id: str
    started: float
    begin: int
    end: int


class AiderTranscripts:
    def __init__(self) -> None:
        self._sections: dict[Path, list[_Section]] = {}

    def find_transcripts(
        self, folders: AgentFolders, project: Path, problems: ImportProblems
    ) -> Iterator[ForeignTranscript]:
        path = project / HISTORY_FILE_NAME
        if not path.exists():
            return
        try:
            sections = self._file_sections(path)
        except UnreadableTranscript:
            problems.add("files that cannot be read")
            return
        for section in sections:
            size = section.end - section.begin
            yield ForeignTranscript(
                "aider", f"{project}@{section.id}", path, size, section.started, str(project), str(size)
            )

    def open_transcript(self, transcript: ForeignTranscript, problems: ImportProblems) -> OpenTranscript:
        id = transcript.id.rpartition("@")[2]
        section = next((one for one in self._file_sections(transcript.path) if one.id == id), None)
        if section is None:
            raise UnreadableTranscript("it no longer exists")
        entries = _entries(transcript.path, section, problems)
        return OpenTranscript(entries, transcript.project, "", section.started, section.started)

    def _file_sections(self, path: Path) -> list[_Section]:
        if path not in self._sections:
            starts, end = list[tuple[int, str]](), 0
            with open_regular_file(path) as file:
                for line in read_lines(file):
                    end = line.offset + line.size
                    if (begin := _SESSION_HEADING.match(line.data)) is not None:
                        starts.append((end, begin[1].decode()))
            ends = [*(after for after, _ in starts[1:]), end]
            counts = dict[str, int]()
            sections = list[_Section]()
            for (first, started), stop in zip(starts, ends, strict=True):
                counts[started] = counts.get(started, 0) + 1
                id = started if counts[started] == 1 else f"{started}#{counts[started]}"
                sections.append(_Section(id, unix_time(started), first, stop))
            self._sections[path] = sections
        return self._sections[path]


def _entries(path: Path, section: _Section, problems: ImportProblems) -> Iterator[TranscriptEntry]:
    kind, lines, size = "", list[str](), 0
    with open_regular_file(path) as file:
        file.seek(section.begin)
        for line in read_lines(file):
            if line.offset + line.size > section.end or _SESSION_HEADING.match(line.data):
                break
            if not line.is_complete:
                problems.add(f"lines of more than {MAX_LINE_BYTES >> 20} MiB")
                continue
            text = text_of(line.data.decode("utf-8", "replace")).rstrip("\r\n")
            line_kind = "said" if text.startswith("#### ") else "told" if text.startswith("> ") else "replied"
            if text.strip() and (line_kind != kind or size > _MAX_TEXT_CHARS):
                yield from _section_entry(kind, lines, section.started)
                kind, lines, size = line_kind, [], 0
            lines.append(re.sub(r"\A(#### |> )", "", text) if line_kind != "replied" else text)
            size += len(text)
    yield from _section_entry(kind, lines, section.started)


def _section_entry(kind: str, lines: list[str], at: float) -> Iterator[TranscriptEntry]:
    text = "\n".join(line.rstrip() for line in lines).strip()
    if not text:
        return
    match kind:
        case "said":
            yield UserEntry(text, at)
        case "told":
            yield ProgramEntry(text, at)
        case _:
            yield ReplyEntry("text", text, at)
