"""Decides which folders a scan must visit. In a large folder, the kernel says what has changed since the last scan, so
that a command need not wait until every file has been looked at.

Nothing is taken for unchanged that the kernel might not report: a file with several names can change through a name in
another folder, so its folders are always visited. So are folders that cannot be watched, and the rules of repositories,
whose `.git` is not watched.
"""

from collections.abc import Set
from contextlib import suppress
from dataclasses import dataclass

from ebbtide.agent.checkpoints.folder_watch import FolderEvents, FolderWatch

MIN_WATCHED_FILES = 2000
"""Minimum number of files in a folder for it to be watched. Fewer are looked at in a few milliseconds."""
_WATCH_LIMIT_FILE = "/proc/sys/fs/inotify/max_user_watches"
_MAX_WATCH_SHARE = 0.5
"""Share of the user's watches that a session may take. Editors need some as well."""


@dataclass(frozen=True, slots=True)
class ScanScope:
    """The folders that a scan visits."""

    is_complete: bool
    """Whether all folders are visited; the other fields are then empty."""
    changed: Set[str] = frozenset()
    """Folders to visit, without those below them."""
    checked: Set[str] = frozenset()
    """Folders that are visited only if they are different folders than before, or their ignore rules have changed."""
    replaced: Set[str] = frozenset()
    """Folders to visit with everything below them."""
    reached: Set[str] = frozenset()
    """All of these folders, and those above them."""


class ScopeTracker:
    """Knows what to visit in the next scan of a folder. Not thread-safe."""

    def __init__(self) -> None:
        self._watch: FolderWatch | None = None
        self._can_watch = True
        self._is_current = False
        """Whether the last scan was finished while the folders were watched."""
        self._old_watches: frozenset[int] = frozenset()
        self._scope = ScanScope(True)
        self._repositories: set[str] = set()
        self._folders_with_links: set[str] = set()
        self._unwatched: set[str] = set()

    @property
    def is_watching(self) -> bool:
        """Whether a scan can be incomplete."""
        return self._watch is not None

    def close(self) -> None:
        """Stop watching."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.close()

    def begin_scan(self, file_count: int, folder_count: int, *, must_be_complete: bool) -> ScanScope:
        """Return what the scan has to visit. `file_count`, `folder_count`: numbers at the last scan."""
        if self._watch is None and self._can_watch and file_count >= MIN_WATCHED_FILES:
            self._start_watching(folder_count)
        events = self._watch.take_events() if self._watch is not None else None
        if events is None or must_be_complete or not self._is_current or "" in events.replaced:
            self._scope = self._complete_scope()
        else:
            self._scope = self._partial_scope(events)
        self._is_current = False
        return self._scope

    def widen_scan(self) -> ScanScope:
        """Have the current scan begin again, with all folders. Return what it has to visit."""
        self._scope = self._complete_scope()
        return self._scope

    def finish_scan(self) -> None:
        """Record that everything in the scope was visited."""
        if self._watch is None:
            return
        if "" in self._unwatched:
            self._give_up()
            return
        if self._scope.is_complete:
            self._watch.remove_unnamed(self._old_watches)
        self._is_current = True

    def enter_folder(self, name: str, folder_fd: int) -> None:
        """Watch an open folder, before it is looked at."""
        if self._watch is None:
            return
        if not self._watch.is_local(folder_fd):
            self._unwatched.add(name)
            return
        try:
            other_name = self._watch.add(name, folder_fd)
        except OSError:
            self._give_up()
            return
        if self._scope.is_complete and other_name not in (None, name):  # mounted at two places: only one is reported
            self._unwatched |= {name, str(other_name)}

    def skip_unreadable_folder(self, name: str) -> None:
        """Record that a folder could not be opened, so that the next scan tries again."""
        self._unwatched.add(name)

    def note_repository(self, name: str) -> None:
        """Record that a folder contains `.git`, where more of its ignore rules may be."""
        self._repositories.add(name)

    def note_linked_file(self, name: str, *, is_changed: bool) -> bool:
        """Record that a folder contains a file with several names. Return whether all folders must be visited to find
        the other names."""
        self._folders_with_links.add(name)
        return is_changed and not self._scope.is_complete

    def _start_watching(self, folder_count: int) -> None:
        limit = 0
        with suppress(OSError, ValueError), open(_WATCH_LIMIT_FILE, encoding="ascii") as file:
            limit = int(file.read())
        self._can_watch = folder_count <= limit * _MAX_WATCH_SHARE
        if self._can_watch:
            try:
                self._watch = FolderWatch()
            except OSError:
                self._can_watch = False

    def _give_up(self) -> None:
        self._can_watch = False
        self.close()

    def _complete_scope(self) -> ScanScope:
        self._repositories.clear()
        self._folders_with_links.clear()
        self._unwatched.clear()
        if self._watch is not None:
            self._old_watches |= self._watch.forget_names()
        return ScanScope(True)

    def _partial_scope(self, events: FolderEvents) -> ScanScope:
        changed, checked = events.changed | self._folders_with_links, self._repositories | {""}
        replaced = events.replaced | self._unwatched
        reached = {""}
        for name in changed | checked | replaced:
            while name not in reached:
                reached.add(name)
                name = name.rpartition("/")[0]
        return ScanScope(False, changed, checked, replaced, reached)
