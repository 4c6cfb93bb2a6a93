"""Scans that visit only what the kernel reports, on real folders with real events."""

import errno
import mmap
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.agent.checkpoints import folder_watch, scan_scope
from ebbtide.agent.checkpoints.comparison import FolderChanges
from ebbtide.agent.checkpoints.file_state import CHANGED_DURING_JOB, CHANGED_UNREPORTED, FileState
from ebbtide.agent.checkpoints.folder_watch import FolderWatch
from ebbtide.agent.checkpoints.nofollow_paths import read_state
from ebbtide.agent.checkpoints.project import ProjectCheckpoints
from ebbtide.agent.checkpoints.undo_points import TurnKey, next_undo
from ebbtide.agent.checkpoints.unread_files import ScanCancelled
from ebbtide.agent.checkpoints.work_tree import WorkTree
from tests.kit.checkpoints import LIMITS, Agent, never, project_in, tree
from tests.kit.files import write_file, write_files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems have no inotify")


@pytest.fixture(autouse=True)
def _watch_small_folders(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan_scope, "MIN_WATCHED_FILES", 1)


class Scans:
    """Scans of a folder: the first one reads all of it, and the second begins to watch it."""

    def __init__(self, root: Path) -> None:
        self.tree = WorkTree(str(root), (), {})
        self.visit_count = 0
        """The number of folders and files that the last scan dealt with."""
        self.scan(must_be_complete=True)
        self.scan(must_be_complete=True)

    def scan(self, on_visit: Callable[[], bool] = never, *, must_be_complete: bool = False) -> FolderChanges:
        self.visit_count = 0

        def is_cancelled() -> bool:
            self.visit_count += 1
            return on_visit()

        return _scan(self.tree, is_cancelled, must_be_complete=must_be_complete)


def _scan(tree: WorkTree, is_cancelled: Callable[[], bool] = never, *, must_be_complete: bool = True) -> FolderChanges:
    def get_state(path: str) -> FileState:
        return read_state(tree.root, path, LIMITS.max_file_bytes, lambda *_: None)

    return tree.scan(LIMITS, lambda *_: None, is_cancelled, get_state, must_be_complete=must_be_complete)


def contents(tree: WorkTree) -> dict[str, object]:
    """Everything that a scan knows about a folder, but for the times."""
    return {
        name: (
            record.mode,
            record.inode,
            record.rules_hash,
            record.subfolders,
            {file: record.state(index) for index, file in enumerate(record.file_names)},
        )
        for name, record in tree.folders.items()
    }


@pytest.fixture
def work(tmp_path: Path) -> Path:
    write_files(tmp_path / "work", {f"part{part}/sub/{name}": f"{part} {name}" for part in range(20) for name in "ab"})
    return tmp_path / "work"


@pytest.fixture
def scans(work: Path) -> Iterator[Scans]:
    begun = Scans(work)
    yield begun
    begun.tree.close()


@pytest.fixture
def project(work: Path) -> Iterator[ProjectCheckpoints]:
    with closing(project_in(work.parent)) as opened:
        yield opened


def test_only_folders_with_a_change_are_visited(work: Path, scans: Scans) -> None:
    assert scans.scan().changes == {}
    assert scans.visit_count == 1
    (work / "part7" / "sub" / "a").write_text("other")
    assert list(scans.scan().changes) == ["part7/sub/a"]
    assert scans.visit_count <= 5  # three folders, the file, and its neighbour if that is new


NAMES = ("a", "b", "c", "c/d", "c/e", "c/f", "c/f/g", "h/i", "h", ".gitignore", "c/.gitignore", ".git/info/exclude")
ACTS = st.tuples(
    st.sampled_from(
        ("write", "append", "map", "remove", "rename", "link", "hard link", "mkdir", "chmod", "truncate", "copy")
    ),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
    st.sampled_from((b"a", b"d\n", b"f/\n", b"*\n", b"other")),
)


def act(work: Path, verb: str, name: str, other: str, content: bytes) -> None:
    path = work / name
    with suppress(OSError, ValueError):
        match verb:
            case "write":
                write_file(path, content)
            case "append":
                with path.open("ab") as file:
                    file.write(content)
            case "map":
                with path.open("r+b") as changed:
                    mapped = mmap.mmap(changed.fileno(), 0)
                with mapped:
                    mapped[0] ^= 1
            case "remove":
                shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
            case "rename":
                path.rename(work / other)
            case "link":
                path.symlink_to(other)
            case "hard link":
                path.hardlink_to(work / other)
            case "mkdir":
                path.mkdir(parents=True)
            case "chmod":
                if not path.is_symlink():
                    path.chmod(0o700 | len(content))
            case "truncate":
                os.truncate(path, 1)
            case "copy" if not os.path.realpath(work / other).startswith(os.path.realpath(path)):
                shutil.copytree(path, work / other, symlinks=True)
    for rules in work.rglob(".gitignore"):
        if rules.is_symlink():  # no scan knows when the target of such a link changes
            rules.unlink()


@pytest.mark.timeout(1200)  # two thousand examples by night
@given(
    first=st.lists(ACTS, max_size=8),
    between=st.lists(st.lists(ACTS, max_size=6), min_size=1, max_size=4),
)
@settings(max_examples=max(40, settings().max_examples // 5))
def test_a_partial_scan_finds_what_a_scan_of_everything_finds(
    tmp_path_factory: pytest.TempPathFactory,
    first: list[tuple[str, str, str, bytes]],
    between: list[list[tuple[str, str, str, bytes]]],
) -> None:
    work = tmp_path_factory.mktemp("any") / "work"
    write_files(work, {"a": "a", "c/d": "d", "c/f/g": "g", ".git/info/exclude": ""})
    for each in first:
        act(work, *each)
    with closing(WorkTree(str(work), (), {})) as walked, closing(Scans(work).tree) as watched:
        _scan(walked)
        for acts in between:
            for each in acts:
                act(work, *each)
            partial, complete = _scan(watched, must_be_complete=False), _scan(walked)
            assert contents(watched) == contents(walked)
            # After a change of ignore rules, times decide whether a file is new, and the two scans differ in theirs.
            assert partial.changes == complete.changes or walked.has_changed_rules
    shutil.rmtree(work.parent)


def test_a_folder_that_moves_is_watched_at_its_new_place(work: Path, scans: Scans) -> None:
    (work / "part1").rename(work / "part2" / "moved")
    scans.scan()
    (work / "part2" / "moved" / "sub" / "a").write_text("changed after the move")
    assert list(scans.scan().changes) == ["part2/moved/sub/a"]


def test_folders_that_change_places_are_scanned_and_watched(work: Path, scans: Scans) -> None:
    for old, new in (("part1", "kept"), ("part2", "part1"), ("kept", "part2")):
        (work / old).rename(work / new)
    assert set(scans.scan().changes) == {f"part{part}/sub/{name}" for part in (1, 2) for name in "ab"}
    (work / "part1" / "sub" / "a").write_text("changed after the move")
    assert list(scans.scan().changes) == ["part1/sub/a"]


def test_another_root_in_the_place_of_the_first_is_scanned_and_watched(work: Path, scans: Scans) -> None:
    work.rename(work.parent / "old")
    write_files(work, {"part1/sub/a": "new"})
    changes = scans.scan().changes
    assert changes["part1/sub/a"][1].digest != changes["part1/sub/a"][0].digest
    assert "part2/sub/a" in changes
    write_file(work / "part1" / "sub" / "a", "newer")
    assert list(scans.scan().changes) == ["part1/sub/a"]


def test_dropped_events_lead_to_a_scan_of_everything(work: Path, scans: Scans) -> None:
    queue_length = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    if queue_length > 100_000:
        pytest.skip(f"this system keeps {queue_length:,} events")
    for number in range(queue_length // 2 + 1):
        os.utime(work / "part1" / "sub" / "a", (number, number))
        os.utime(work / "part2" / "sub" / "a", (number, number))
    (work / "part3" / "sub" / "a").write_text("its event is dropped")
    assert list(scans.scan().changes) == ["part3/sub/a"]
    assert scans.visit_count >= 41
    scans.scan()
    assert scans.visit_count == 1


def test_all_names_of_a_file_change_with_one(work: Path, scans: Scans) -> None:
    (work / "part2" / "sub" / "new").hardlink_to(work / "part1" / "sub" / "a")
    assert list(scans.scan().changes) == ["part2/sub/new"]
    (work / "part2" / "sub" / "new").write_text("through the new name")
    assert sorted(scans.scan().changes) == ["part1/sub/a", "part2/sub/new"]


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.ENOMEM])
def test_without_more_watches_everything_is_visited(work: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    add, names = FolderWatch.add, list[str]()

    def add_few(self: FolderWatch, name: str, folder_fd: int) -> str | None:
        names.append(name)
        if len(names) > 10:
            raise OSError(code, os.strerror(code))
        return add(self, name, folder_fd)

    monkeypatch.setattr(FolderWatch, "add", add_few)
    scans = Scans(work)
    assert not scans.tree.is_watching
    (work / "part9" / "sub" / "b").write_text("changed")
    assert list(scans.scan().changes) == ["part9/sub/b"]
    assert len(names) == 11


def test_a_folder_with_more_folders_than_half_of_all_watches_is_not_watched(
    work: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = tmp_path / "max_user_watches"
    limit.write_text("81\n")  # there are 41 folders
    monkeypatch.setattr(scan_scope, "_WATCH_LIMIT_FILE", str(limit))
    assert not Scans(work).tree.is_watching


def test_a_file_system_that_others_change_is_not_watched(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder_watch, "_LOCAL_FILE_SYSTEMS", frozenset())
    scans = Scans(work)
    assert not scans.tree.is_watching
    (work / "part9" / "sub" / "b").write_text("changed")
    assert list(scans.scan().changes) == ["part9/sub/b"]


def test_a_scan_that_was_cut_off_loses_no_event(work: Path, scans: Scans) -> None:
    (work / "part1" / "sub" / "a").write_text("changed")
    with pytest.raises(ScanCancelled):
        scans.scan(lambda: True)
    assert list(scans.scan().changes) == ["part1/sub/a"]


def test_a_folder_that_goes_while_it_is_scanned_is_gone_in_the_next_scan(work: Path, scans: Scans) -> None:
    for part in range(20):
        (work / f"part{part}" / "sub" / "a").write_text("changed")
    removed = iter([work / "part0", work / "part19"])

    def remove_one() -> bool:
        with suppress(StopIteration):
            shutil.rmtree(next(removed))
        return False

    scans.scan(remove_one)
    scans.scan()
    with closing(WorkTree(str(work), (), {})) as fresh:
        _scan(fresh)
        assert contents(scans.tree) == contents(fresh)


def test_a_closed_watch_needs_no_files(work: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    scans = Scans(work)
    assert len(os.listdir("/proc/self/fd")) == before + 1
    scans.tree.close()
    assert len(os.listdir("/proc/self/fd")) == before


# Whose change it is


def _start_watching(project: ProjectCheckpoints) -> Agent:
    agent = Agent(project)
    with agent.turn():
        pass
    return agent


def test_what_the_user_changes_between_two_commands_of_a_turn_is_not_the_agents(
    work: Path, project: ProjectCheckpoints
) -> None:
    agent = _start_watching(project)
    place = agent.begin()
    (work / "part1" / "sub" / "a").write_text("agent")
    assert project.end_command(place) == ""
    (work / "part2" / "sub" / "a").write_text("user")
    assert project.begin_command(place, in_job=False, is_cancelled=never) == ""
    (work / "part3" / "sub" / "a").write_text("agent")
    assert agent.end(place) == ("part1/sub/a", "part3/sub/a")
    (work / "part4" / "sub" / "a").write_text("user")
    project.check_turn(place, in_job=False)
    assert _doubts(project) == {"part1/sub/a": "", "part3/sub/a": ""}
    now = tree(work)
    _undo(project)
    assert (work / "part2" / "sub" / "a").read_text() == "user"
    assert {path for path, what in tree(work).items() if what != now[path]} == {"part1/sub/a", "part3/sub/a"}


def test_the_changes_of_a_process_are_known_when_it_has_ended(work: Path, project: ProjectCheckpoints) -> None:
    agent = _start_watching(project)
    place = agent.begin()
    writes = (
        "import mmap, os; file = open('part1/sub/a', 'r+b'); mapped = mmap.mmap(file.fileno(), 0); file.close(); "
        "mapped[0] = 33; os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", writes], cwd=work, check=True)
    assert agent.end(place) == ("part1/sub/a",)


def _through_a_memory_map(work: Path) -> None:
    with (work / "part1" / "sub" / "a").open("r+b") as file:
        _MAPS.append(mmap.mmap(file.fileno(), 0))
    _MAPS[-1][0] = 33


def _through_another_name(work: Path) -> None:
    (work.parent / "outside").hardlink_to(work / "part1" / "sub" / "a")
    (work.parent / "outside").write_text("changed")


_MAPS: list[mmap.mmap] = []


@pytest.mark.parametrize("change", [_through_a_memory_map, _through_another_name])
@pytest.mark.parametrize("in_job", [False, True])
def test_what_the_system_does_not_report_is_found_after_the_turn_and_asked_about(
    work: Path, project: ProjectCheckpoints, change: Callable[[Path], None], in_job: bool
) -> None:
    agent = _start_watching(project)
    place = agent.begin()
    write_file(work / "new", "new")
    change(work)
    assert agent.end(place) == ("new",)
    project.check_turn(place, in_job=in_job)
    doubt = CHANGED_DURING_JOB if in_job else CHANGED_UNREPORTED
    assert _doubts(project) == {"new": "", "part1/sub/a": doubt}
    project.check_turn(place, in_job=in_job)
    assert _doubts(project) == {"new": "", "part1/sub/a": doubt}


def test_what_the_system_does_not_report_between_turns_is_the_users(work: Path, project: ProjectCheckpoints) -> None:
    agent = _start_watching(project)
    _through_another_name(work)
    place = agent.begin()
    write_file(work / "new", "new")
    assert agent.end(place) == ("new",)
    project.check_turn(place, in_job=False)
    assert _doubts(project) == {"new": ""}


def _doubts(project: ProjectCheckpoints) -> dict[str, str]:
    """The paths that the last turn has changed, and why another may have."""
    point = next_undo(project.points())
    assert point is not None
    return {change.path: change.other_cause for change in project.merged_changes((point.id,))}


def _undo(project: ProjectCheckpoints) -> None:
    point = next_undo(project.points())
    assert point is not None
    project.restore(project.plan_undo((point.id,)), TurnKey("s", 99), "undo")
