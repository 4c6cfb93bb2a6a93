"""Transcripts of aider: one Markdown file per project, with a heading for each session."""

import re
from collections.abc import Iterator
from pathlib import Path

from ebbtide.agent.imports.agent_folders import AgentFolders
from ebbtide.agent.imports.json_lines import MAX_LINE_BYTES, lines_of, regular_file, text_of, time_of
from ebbtide.agent.imports.transcript import (
    Entry,
    ForeignTranscript,
    ImportProblems,
    OpenTranscript,
    ProgramEntry,
    ReplyEntry,
    UnreadableTranscript,
    UserEntry,
)
from ebbtide.tools.lazy import dataclass, regex

NAME = ".aider.chat.history.md"
_BEGIN = regex(rb"# aider chat started at (\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\s*\Z")
_MAX_TEXT_CHARS = 1 << 20
"""Characters after which a long text is split into another entry."""


@dataclass(frozen=True, slots=True)
class _Section:
    """A session in the file."""

    id: str
    started: float
    begin: int
    end: int


class AiderTranscripts:
    def __init__(self) -> None:
        self._sections: dict[Path, list[_Section]] = {}

    def find_transcripts(
        self, folders: AgentFolders, project: Path, troubles: ImportProblems
    ) -> Iterator[ForeignTranscript]:
        path = project / NAME
        if not path.exists():
            return
        try:
            sections = self._sections_of(path)
        except UnreadableTranscript:
            troubles.add("files that cannot be read")
            return
        for one in sections:
            size = one.end - one.begin
            yield ForeignTranscript("aider", f"{project}@{one.id}", path, size, one.started, str(project), str(size))

    def open_transcript(self, transcript: ForeignTranscript, troubles: ImportProblems) -> OpenTranscript:
        id = transcript.id.rpartition("@")[2]
        section = next((one for one in self._sections_of(transcript.path) if one.id == id), None)
        if section is None:
            raise UnreadableTranscript("it no longer exists")
        entries = _entries(transcript.path, section, troubles)
        return OpenTranscript(entries, transcript.project, "", section.started, section.started)

    def _sections_of(self, path: Path) -> list[_Section]:
        if path not in self._sections:
            starts, end = list[tuple[int, str]](), 0
            with regular_file(path) as file:
                for line in lines_of(file):
                    end = line.offset + line.size
                    if (begin := _BEGIN.match(line.data)) is not None:
                        starts.append((end, begin[1].decode()))
            ends = [*(after for after, _ in starts[1:]), end]
            counts = dict[str, int]()
            found = list[_Section]()
            for (first, started), stop in zip(starts, ends, strict=True):
                counts[started] = counts.get(started, 0) + 1
                id = started if counts[started] == 1 else f"{started}#{counts[started]}"
                found.append(_Section(id, time_of(started), first, stop))
            self._sections[path] = found
        return self._sections[path]


def _entries(path: Path, section: _Section, troubles: ImportProblems) -> Iterator[Entry]:
    kind, lines, size = "", list[str](), 0
    with regular_file(path) as file:
        file.seek(section.begin)
        for line in lines_of(file):
            if line.offset + line.size > section.end or _BEGIN.match(line.data):
                break
            if not line.is_whole:
                troubles.add(f"lines of more than {MAX_LINE_BYTES >> 20} MiB")
                continue
            text = text_of(line.data.decode("utf-8", "replace")).rstrip("\r\n")
            found = "said" if text.startswith("#### ") else "told" if text.startswith("> ") else "replied"
            if text.strip() and (found != kind or size > _MAX_TEXT_CHARS):
                yield from _entry(kind, lines, section.started)
                kind, lines, size = found, [], 0
            lines.append(re.sub(r"\A(#### |> )", "", text) if found != "replied" else text)
            size += len(text)
    yield from _entry(kind, lines, section.started)


def _entry(kind: str, lines: list[str], at: float) -> Iterator[Entry]:
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
