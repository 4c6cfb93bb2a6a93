"""When the tools of a project were used last. It knows names and times, not what a tool does."""

from collections.abc import Mapping

from store.sessions import SessionStore


def tool_uses(store: SessionStore, project: str) -> dict[str, float]:
    """Unix seconds of the last use of each tool in a project. Raises `StoreError`."""
    found = store.query("select tool, used from tool_uses where project = ? and typeof(used) = 'real'", project)
    return {str(tool): used for tool, used in found}


def keep_tool_uses(store: SessionStore, project: str, uses: Mapping[str, float]) -> None:
    """Keeps uses, each unless a later one is known. Raises `StoreError`."""
    with store.transaction() as db:
        db.executemany(
            "insert into tool_uses (project, tool, used) values (?, ?, ?) "
            "on conflict (project, tool) do update set used = max(used, excluded.used)",
            [(project, tool, used) for tool, used in uses.items()],
        )
