"""Transcripts of aider: one Markdown file per project, with a heading for each session."""

import re
from collections.abc import Iterator
from pathlib import Path

from ebbtide.agent.integrations.imports.agent_folders import AgentFolders
from ebbtide.agent.integrations.imports.json_lines import (
    MAX_LINE_BYTES,
    as_text,
    open_regular_file,
    parse_time,
    read_lines,
)
from ebbtide.agent.integrations.imports.transcript import (
    ImportableTranscript,
    ImportProblems,
    OpenedTranscript,
    ProgramEntry,
    ReplyEntry,
    TranscriptEntry,
    UnreadableTranscriptError,
    UserEntry,
)
from ebbtide.tools.lazy import dataclass, regex

HISTORY_FILE_NAME = ".aider.chat.history.md"
_SESSION_HEADING = regex(rb"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*\Z")
_MAX_TEXT_CHARS = 1 << 20
"""Maximum length of an entry, in characters. Longer text continues in another entry."""


@dataclass(frozen=True, slots=True)
class _Section:
    """The part of the file that contains one session."""

    id: str
    started_at: float
    start: int
    end: int


class AiderTranscripts:
    def __init__(self) -> None:
        self._sections: dict[Path, list[_Section]] = {}

    def find_transcripts(
        self, folders: AgentFolders, project: Path, problems: ImportProblems
    ) -> Iterator[ImportableTranscript]:
        path = project / HISTORY_FILE_NAME
        if not path.exists():
            return
        try:
            sections = self._file_sections(path)
        except UnreadableTranscriptError:
            problems.add("files that cannot be read")
            return
        for section in sections:
            size = section.end - section.start
            yield ImportableTranscript(
                "aider", f"{project}@{section.id}", path, size, section.started_at, str(project), str(size)
            )

    def open_transcript(self, transcript: ImportableTranscript, problems: ImportProblems) -> OpenedTranscript:
        section_id = transcript.id.rpartition("@")[2]
        section = next(
            (candidate for candidate in self._file_sections(transcript.path) if candidate.id == section_id), None
        )
        if section is None:
            raise UnreadableTranscriptError("it no longer exists")
        entries = _entries(transcript.path, section, problems)
        return OpenedTranscript(entries, transcript.project, "", section.started_at, section.started_at)

    def _file_sections(self, path: Path) -> list[_Section]:
        if path not in self._sections:
            starts, end = list[tuple[int, str]](), 0
            with open_regular_file(path) as file:
                for line in read_lines(file):
                    end = line.offset + line.size
                    if (match := _SESSION_HEADING.match(line.data)) is not None:
                        starts.append((end, match[1].decode()))
            ends = [*(start_offset for start_offset, _ in starts[1:]), end]
            counts = dict[str, int]()
            sections = list[_Section]()
            for (section_start, started_text), section_end in zip(starts, ends, strict=True):
                counts[started_text] = counts.get(started_text, 0) + 1
                section_id = started_text if counts[started_text] == 1 else f"{started_text}#{counts[started_text]}"
                sections.append(_Section(section_id, parse_time(started_text), section_start, section_end))
            self._sections[path] = sections
        return self._sections[path]


def _entries(path: Path, section: _Section, problems: ImportProblems) -> Iterator[TranscriptEntry]:
    kind, lines, char_count = "", list[str](), 0
    with open_regular_file(path) as file:
        file.seek(section.start)
        for line in read_lines(file):
            if line.offset + line.size > section.end or _SESSION_HEADING.match(line.data):
                break
            if not line.is_complete:
                problems.add(f"lines of more than {MAX_LINE_BYTES >> 20} MiB")
                continue
            text = as_text(line.data.decode("utf-8", "replace")).rstrip("\r\n")
            line_kind = "user" if text.startswith("#### ") else "program" if text.startswith("> ") else "reply"
            if text.strip() and (line_kind != kind or char_count > _MAX_TEXT_CHARS):
                yield from _section_entry(kind, lines, section.started_at)
                kind, lines, char_count = line_kind, [], 0
            lines.append(re.sub(r"\A(#### |> )", "", text) if line_kind != "reply" else text)
            char_count += len(text)
    yield from _section_entry(kind, lines, section.started_at)


def _section_entry(kind: str, lines: list[str], timestamp: float) -> Iterator[TranscriptEntry]:
    text = "\n".join(line.rstrip() for line in lines).strip()
    if not text:
        return
    match kind:
        case "user":
            yield UserEntry(text, timestamp)
        case "program":
            yield ProgramEntry(text, timestamp)
        case _:
            yield ReplyEntry("text", text, timestamp)
