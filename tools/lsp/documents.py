"""What a language server was told about files, and what it reported. Does not communicate itself."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ebbtide.tools.lsp.diagnostics import Problem, new_problems, problems_in, worth_telling

MAX_OPEN = 40
"""Maximum number of files open in a server."""
MAX_FILES, MAX_PROBLEMS = 5000, 50_000
"""Maximum number of closed files whose pushed diagnostics are stored, and of problems in all of them."""


@dataclass(slots=True)
class OpenDocument:
    """A file that is open in a server."""

    text: str
    version: int
    reported_version: int = -1
    """The version of the last report."""


class Documents:
    """The files of a running server. Pushed and pulled diagnostics are combined."""

    def __init__(self, name: str, root: Path) -> None:
        self._name = name
        self._root = root
        self.open: dict[Path, OpenDocument] = {}
        """Ordered by last change, newest last."""
        self._pushed: dict[Path, tuple[Problem, ...]] = {}
        self._count = 0
        """Pushed diagnostics."""
        self._pulled: dict[Path, tuple[Problem, ...]] = {}
        self._known: dict[Path, tuple[Problem, ...]] = {}
        """Problems that existed before or were already reported. Files without complete diagnostics are missing."""
        self._news: dict[Path, tuple[Problem, ...]] = {}
        self._has_stock = False
        """Whether the server has reported all existing problems once, so that later ones in other files are new."""

    def problems(self, path: Path) -> tuple[Problem, ...]:
        pulled = self._pulled.get(path, ())
        return (*pulled, *(one for one in self._pushed.get(path, ()) if one not in pulled))

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files with problems, as far as reported."""
        return tuple(sorted(path for path in {*self._pushed, *self._pulled} if self.problems(path)))

    def push(self, parameters: object) -> Path | None:
        """Store pushed diagnostics and return the file, or None if they are invalid or for an outdated version."""
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
        """Store the answer to a diagnostics request for a version of a file."""
        document = self.open.get(path)
        if document is None or document.version != version or not isinstance(report, dict):
            return
        if report.get("kind") == "full":
            self._pulled[path] = problems_in(report.get("items"), self._name)
        document.reported_version = version

    def forget(self, path: Path) -> None:
        """Remove a closed or deleted file with its problems."""
        self._count -= len(self._pushed.get(path, ()))
        for each in (self.open, self._pushed, self._pulled, self._known, self._news):
            each.pop(path, None)

    # Problems introduced by edits.

    def set_baseline(self, paths: Sequence[Path]) -> None:
        """Mark all current problems as old, in these files and in those that are not edited."""
        self._known.update({path: self.problems(path) for path in (*paths, *self._pushed)})
        self._has_stock = True

    def is_known(self, path: Path) -> bool:
        return path in self._known

    def compare(self, texts: Mapping[Path, tuple[str, str]]) -> None:
        """Find new problems: in files whose text changed, and in other known files."""
        for path in {*texts, *self._pushed}:
            known = self._known.get(path, () if self._has_stock and path not in texts else None)
            if known is not None:
                found = new_problems(known, self.problems(path), *texts.get(path, ("", "")))
                self._news[path] = (*self._news.get(path, ()), *worth_telling(found))
        self.set_baseline(tuple(texts))

    def take_news(self) -> Mapping[Path, tuple[Problem, ...]]:
        """Return the new problems since the last call that still exist, at their current positions."""
        news, self._news = self._news, {}
        still = {path: _standing(found, self.problems(path)) for path, found in news.items()}
        return {path: found for path, found in still.items() if found}


def _standing(found: Sequence[Problem], now: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the current problems that correspond to earlier ones, by position or else by kind."""
    left = list(now)
    return tuple(one for problem in found for one in _take_alike(problem, left))


def _take_alike(problem: Problem, left: list[Problem]) -> Iterator[Problem]:
    alike = [one for one in left if one.kind == problem.kind]
    if alike:
        chosen = min(alike, key=lambda one: abs(one.line - problem.line))
        left.remove(chosen)
        yield chosen


def path_of(uri: object) -> Path | None:
    """Return the file of a URI, or None if it is not a file on this machine."""
    if not isinstance(uri, str):
        return None
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    is_file = parts.scheme == "file" and parts.netloc in ("", "localhost") and path.startswith("/") and "\0" not in path
    return Path(path) if is_file else None
