"""A damaged database repaired: what was saved, and what could not be, as findings of `ebb doctor --repair`."""

from collections.abc import Iterator, Mapping

from agent.config.values import Folders
from agent.doctor.finding import Finding, Tell
from store.checks import examine_database
from store.errors import StoreError
from store.locks import is_open
from store.migrations import MIGRATIONS
from store.repair import is_damaged, repair_database

_SHOWN = {"sessions": "sessions", "messages": "messages", "outputs": "references to outputs", "summaries": "summaries"}


def repair_store(folders: Folders, tell: Tell) -> Iterator[Finding]:
    """Repairs the database where it is damaged and no session is open."""
    path, locks = folders.data / "sessions.db", folders.data / "locks"
    if not path.exists() and not path.with_name(f"{path.name}-wal").exists():
        yield Finding("repair", "well", "there is no database yet")
        return
    running = [lock.stem for lock in locks.glob("*.lock") if is_open(locks, lock.stem)]
    if running:
        names = ", ".join(f"`{session}`" for session in running[:5])
        yield Finding("repair", "broken", f"nothing was repaired: {names} is open", "close it and run this again")
        return
    problems: tuple[str, ...] = ()
    try:
        examined = examine_database(path, lambda: tell("the database", 0, 0))
        if examined.version > len(MIGRATIONS):
            yield Finding(
                "repair",
                "broken",
                "nothing was repaired: a newer version of the program made this",
                "update this program",
            )
            return
        problems = examined.problems
    except StoreError as error:
        if path.exists() and error.reason in ("locked", "newer"):
            yield Finding("repair", "broken", f"nothing was repaired: {error}")
            return
        problems = (str(error),)
    try:
        if not is_damaged(path, problems):
            yield Finding("repair", "well", "the database is not damaged, and nothing was changed")
            return
        repaired = repair_database(path, lambda: tell("what can be saved of the database", 0, 0))
    except StoreError as error:
        yield Finding("repair", "broken", f"nothing was repaired, and all is as it was: {error}")
        return
    yield Finding("repair", "note", f"saved {_counted(repaired.saved)} into a new `{path}`")
    yield Finding("repair", "note", f"the damaged one is set aside as `{repaired.aside}`", "remove it when all is well")
    for lost in repaired.lost:
        yield Finding("repair", "note", f"could not be saved: {lost}")
    if not repaired.lost:
        yield Finding("repair", "note", "nothing is known to be lost, besides what no page of the file names any more")


def _counted(saved: Mapping[str, int]) -> str:
    return ", ".join(f"{saved[table]:,} {name}" for table, name in _SHOWN.items())
