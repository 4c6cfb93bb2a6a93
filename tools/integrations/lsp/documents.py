"""The files of a language server: the text sent to it and the diagnostics received. No I/O."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from ebbtide.tools.integrations.lsp.diagnostics import Problem, errors_and_warnings, find_new_problems, parse_problems

MAX_OPEN_FILES = 40
"""Maximum number of files open in a server."""
MAX_FILES_WITH_PROBLEMS, MAX_STORED_PROBLEMS = 5000, 50_000
"""Maximum number of closed files whose pushed diagnostics are stored, and maximum number of problems in total."""


@dataclass(slots=True)
class OpenDocument:
    """A file that is open in a server."""

    text: str
    version: int
    reported_version: int = -1
    """The version to which the last report applies."""


class Documents:
    """The files of a running server. Combines pushed and pulled diagnostics."""

    def __init__(self, name: str, root: Path) -> None:
        self._name = name
        self._root = root
        self.open_documents: dict[Path, OpenDocument] = {}
        """The open files, most recently changed last."""
        self._pushed_problems: dict[Path, tuple[Problem, ...]] = {}
        self._pushed_count = 0
        """Number of problems in pushed diagnostics."""
        self._pulled_problems: dict[Path, tuple[Problem, ...]] = {}
        self._baseline: dict[Path, tuple[Problem, ...]] = {}
        """Problems that are not new: they existed before, or were already collected as new. Contains only files with
        complete diagnostics."""
        self._unreported_problems: dict[Path, tuple[Problem, ...]] = {}
        self._has_any_baseline = False
        """Whether a baseline was ever set. From then on, all problems in files without a baseline are new."""

    def problems(self, path: Path) -> tuple[Problem, ...]:
        pulled = self._pulled_problems.get(path, ())
        return (*pulled, *(problem for problem in self._pushed_problems.get(path, ()) if problem not in pulled))

    @property
    def paths_with_problems(self) -> tuple[Path, ...]:
        """The files in which problems have been reported."""
        return tuple(sorted(path for path in {*self._pushed_problems, *self._pulled_problems} if self.problems(path)))

    def store_pushed(self, parameters: object) -> Path | None:
        """Store pushed diagnostics and return their file. None if they are invalid or for an outdated version."""
        if not isinstance(parameters, dict):
            return None
        path, version = path_from_uri(parameters.get("uri")), parameters.get("version")
        if path is None or not path.is_relative_to(self._root):
            return None
        document = self.open_documents.get(path)
        if isinstance(version, int) and document is not None and version != document.version:
            return None
        pushed = parse_problems(parameters.get("diagnostics"), self._name)
        new_count = self._pushed_count + len(pushed) - len(self._pushed_problems.get(path, ()))
        exceeds_limits = new_count > MAX_STORED_PROBLEMS or (
            path not in self._pushed_problems and len(self._pushed_problems) >= MAX_FILES_WITH_PROBLEMS
        )
        if document is None and exceeds_limits:
            return None
        self._pushed_problems[path], self._pushed_count = pushed, new_count
        if document is not None:
            document.reported_version = document.version
        return path

    def store_pulled(self, path: Path, version: int, report: object) -> None:
        """Store the answer to a diagnostics request for a version of a file."""
        document = self.open_documents.get(path)
        if document is None or document.version != version or not isinstance(report, dict):
            return
        if report.get("kind") == "full":
            self._pulled_problems[path] = parse_problems(report.get("items"), self._name)
        document.reported_version = version

    def remove(self, path: Path) -> None:
        """Remove a closed or deleted file with its problems."""
        self._pushed_count -= len(self._pushed_problems.get(path, ()))
        for table in (
            self.open_documents,
            self._pushed_problems,
            self._pulled_problems,
            self._baseline,
            self._unreported_problems,
        ):
            table.pop(path, None)

    # Problems introduced by edits

    def set_baseline(self, paths: Sequence[Path]) -> None:
        """Mark all current problems as old, in these files and in all others with pushed diagnostics."""
        self._baseline.update({path: self.problems(path) for path in (*paths, *self._pushed_problems)})
        self._has_any_baseline = True

    def has_baseline(self, path: Path) -> bool:
        return path in self._baseline

    def collect_new_problems(self, texts: Mapping[Path, tuple[str, str]]) -> None:
        """Find new problems in the files whose text changed and in other known files."""
        for path in {*texts, *self._pushed_problems}:
            baseline = self._baseline.get(path, () if self._has_any_baseline and path not in texts else None)
            if baseline is not None:
                introduced = find_new_problems(baseline, self.problems(path), *texts.get(path, ("", "")))
                self._unreported_problems[path] = (
                    *self._unreported_problems.get(path, ()),
                    *errors_and_warnings(introduced),
                )
        self.set_baseline(tuple(texts))

    def take_new_problems(self) -> Mapping[Path, tuple[Problem, ...]]:
        """Return the problems that were found since the last call and still exist, at their current positions."""
        unreported, self._unreported_problems = self._unreported_problems, {}
        present = {path: _match_current(problems, self.problems(path)) for path, problems in unreported.items()}
        return {path: problems for path, problems in present.items() if problems}


def _match_current(earlier: Sequence[Problem], current: Sequence[Problem]) -> tuple[Problem, ...]:
    """Return the current problems that match earlier ones. Each earlier problem is matched with the nearest one of its
    kind."""
    candidates = list(current)
    return tuple(current_problem for problem in earlier for current_problem in _take_nearest(problem, candidates))


def _take_nearest(problem: Problem, candidates: list[Problem]) -> Iterator[Problem]:
    same_kind = [candidate for candidate in candidates if candidate.kind == problem.kind]
    if same_kind:
        nearest = min(same_kind, key=lambda candidate: abs(candidate.line - problem.line))
        candidates.remove(nearest)
        yield nearest


def path_from_uri(uri: object) -> Path | None:
    """Return the path of a `file:` URI. None if the file is not on this machine."""
    if not isinstance(uri, str):
        return None
    try:
        split_uri = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(split_uri.path)
    is_file = (
        split_uri.scheme == "file"
        and split_uri.netloc in ("", "localhost")
        and path.startswith("/")
        and "\0" not in path
    )
    return Path(path) if is_file else None
