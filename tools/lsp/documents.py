"""What a language server was told of files and what it said of them. It talks to nobody."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ebbtide.tools.lsp.diagnostics import Problem, new_problems, problems_in, worth_telling

MAX_OPEN = 40
"""Files that a server holds open at once."""
MAX_FILES, MAX_PROBLEMS = 5000, 50_000
"""Files that are not open of which it is kept what a server said unasked, and problems in all of them."""


@dataclass(slots=True)
class OpenDocument:
    """A file that a server holds open."""

    text: str
    version: int
    reported_version: int = -1
    """The version that the server has last said something of."""


class Documents:
    """The files of one server while it runs. Problems that it pushes and problems that are pulled count together."""

    def __init__(self, name: str, root: Path) -> None:
        self._name = name
        self._root = root
        self.open: dict[Path, OpenDocument] = {}
        """The one that was changed last is last."""
        self._pushed: dict[Path, tuple[Problem, ...]] = {}
        self._count = 0
        """Problems that were pushed."""
        self._pulled: dict[Path, tuple[Problem, ...]] = {}
        self._known: dict[Path, tuple[Problem, ...]] = {}
        """What was there before, or was told since. A file whose problems were never all there is not in it."""
        self._news: dict[Path, tuple[Problem, ...]] = {}
        self._has_stock = False
        """The server has once said all that was wrong: what it says later of other files is new."""

    def problems(self, path: Path) -> tuple[Problem, ...]:
        pulled = self._pulled.get(path, ())
        return (*pulled, *(one for one in self._pushed.get(path, ()) if one not in pulled))

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that something is wrong with, as far as the server has said."""
        return tuple(sorted(path for path in {*self._pushed, *self._pulled} if self.problems(path)))

    def push(self, parameters: object) -> Path | None:
        """Takes what the server says unasked; None where that is nothing, or of another version than the one that it
        was told last."""
        if not isinstance(parameters, dict):
            return None
        path, version = path_of(parameters.get("uri")), parameters.get("version")
        if path is None or not path.is_relative_to(self._root):
            return None
        document = self.open.get(path)
        if isinstance(version, int) and document is not None and version != document.version:
            return None
        before, found = self._pushed.get(path, ()), problems_in(parameters.get("diagnostics"), self._name)
        count = self._count + len(found) - len(before)
        is_too_much = count > MAX_PROBLEMS or (path not in self._pushed and len(self._pushed) >= MAX_FILES)
        if document is None and is_too_much:
            return None
        self._pushed[path], self._count = found, count
        if document is not None:
            document.reported_version = document.version
        return path

    def pull(self, path: Path, version: int, report: object) -> None:
        """Takes the answer to a question about a version of a file."""
        document = self.open.get(path)
        if document is None or document.version != version or not isinstance(report, dict):
            return
        if report.get("kind") == "full":
            self._pulled[path] = problems_in(report.get("items"), self._name)
        document.reported_version = version

    def forget(self, path: Path) -> None:
        """The file is closed or gone: nothing is wrong with it any more."""
        self._count -= len(self._pushed.get(path, ()))
        for each in (self.open, self._pushed, self._pulled, self._known, self._news):
            each.pop(path, None)

    # What an edit brought.

    def set_baseline(self, paths: Sequence[Path]) -> None:
        """All that is wrong now was there before, in these files and in those that nobody edits."""
        self._known.update({path: self.problems(path) for path in (*paths, *self._pushed)})
        self._has_stock = True

    def is_known(self, path: Path) -> bool:
        return path in self._known

    def compare(self, texts: Mapping[Path, tuple[str, str]]) -> None:
        """Finds out what is new: in files whose text was another one before, and in others that were known."""
        for path in {*texts, *self._pushed}:
            known = self._known.get(path, () if self._has_stock and path not in texts else None)
            if known is not None:
                found = new_problems(known, self.problems(path), *texts.get(path, ("", "")))
                self._news[path] = (*self._news.get(path, ()), *worth_telling(found))
        self.set_baseline(tuple(texts))

    def take_news(self) -> Mapping[Path, tuple[Problem, ...]]:
        """What was found since this was last asked and is wrong still, where it stands now."""
        news, self._news = self._news, {}
        still = {path: _standing(found, self.problems(path)) for path, found in news.items()}
        return {path: found for path, found in still.items() if found}


def _standing(found: Sequence[Problem], now: Sequence[Problem]) -> tuple[Problem, ...]:
    """The problems of a file that are in it now: those that stand where they stood, and others alike."""
    left = list(now)
    return tuple(one for problem in found for one in _take_alike(problem, left))


def _take_alike(problem: Problem, left: list[Problem]) -> Iterator[Problem]:
    alike = [one for one in left if one.kind == problem.kind]
    if alike:
        chosen = min(alike, key=lambda one: abs(one.line - problem.line))
        left.remove(chosen)
        yield chosen


def path_of(uri: object) -> Path | None:
    """The file that a URI names; None where it names none on this machine."""
    if not isinstance(uri, str):
        return None
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    is_file = parts.scheme == "file" and parts.netloc in ("", "localhost") and path.startswith("/") and "\0" not in path
    return Path(path) if is_file else None
