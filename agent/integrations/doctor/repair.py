"""Repairs a damaged database and reports what was saved and lost, for `ebb doctor --repair`."""

from collections.abc import Iterator, Mapping

from ebbtide.agent.config.values import Folders
from ebbtide.agent.integrations.doctor.check_result import CheckResult, ReportProgress
from ebbtide.store.checks import check_database
from ebbtide.store.errors import StoreError
from ebbtide.store.locks import is_open
from ebbtide.store.migrations import MIGRATIONS
from ebbtide.store.repair import is_damaged, repair_database

_TABLE_LABELS = {
    "sessions": "sessions",
    "messages": "messages",
    "outputs": "references to outputs",
    "summaries": "summaries",
}


def repair_store(folders: Folders, report_progress: ReportProgress) -> Iterator[CheckResult]:
    """Repair the database if it is damaged and no session is open."""
    path, lock_folder = folders.data / "sessions.db", folders.data / "locks"
    if not path.exists() and not path.with_name(f"{path.name}-wal").exists():
        yield CheckResult("repair", "well", "no database yet")
        return
    open_sessions = [lock.stem for lock in lock_folder.glob("*.lock") if is_open(lock_folder, lock.stem)]
    if open_sessions:
        names = ", ".join(f"`{session}`" for session in open_sessions[:5])
        yield CheckResult("repair", "broken", f"nothing was repaired: {names} is open", "close it and run this again")
        return
    problems: tuple[str, ...] = ()
    try:
        database_check = check_database(path, lambda: report_progress("the database", 0, 0))
        if database_check.version > len(MIGRATIONS):
            yield CheckResult(
                "repair",
                "broken",
                "nothing was repaired: the database was created by a newer version of the program",
                "update this program",
            )
            return
        problems = database_check.problems
    except StoreError as error:
        if path.exists() and error.reason in ("locked", "newer"):
            yield CheckResult("repair", "broken", f"nothing was repaired: {error}")
            return
        problems = (str(error),)
    try:
        if not is_damaged(path, problems):
            yield CheckResult("repair", "well", "the database is not damaged; nothing was changed")
            return
        repair_result = repair_database(path, lambda: report_progress("saving the database", 0, 0))
    except StoreError as error:
        yield CheckResult("repair", "broken", f"nothing was changed: {error}")
        return
    yield CheckResult("repair", "note", f"saved {_format_saved_counts(repair_result.saved_rows)} in a new `{path}`")
    yield CheckResult(
        "repair",
        "note",
        f"the damaged one was moved to `{repair_result.damaged_path}`",
        "remove it when everything works",
    )
    for loss in repair_result.lost:
        yield CheckResult("repair", "note", f"could not be saved: {loss}")
    if not repair_result.lost:
        yield CheckResult("repair", "note", "no losses found, but lost data to which no page refers cannot be detected")


def _format_saved_counts(saved: Mapping[str, int]) -> str:
    return ", ".join(f"{saved[table]:,} {name}" for table, name in _TABLE_LABELS.items())
