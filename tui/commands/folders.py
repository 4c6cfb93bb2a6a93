"""Commands for additional folders and the sandbox."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ebbtide.agent.errors import AgentError
from ebbtide.tools.sandbox.boundary import Boundary, NetworkMode, PathAccess, SandboxState
from ebbtide.tui.commands.command_context import CommandContext
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.text.spans import Line, parse_inline_code
from ebbtide.tui.view.panel import ActionOutcome, Panel, PanelAction, PanelRow, ShowMessage, build_report_panel


def build_folders_panel(folders: Sequence[str], remove: Callable[[PanelRow, str], Awaitable[ActionOutcome]]) -> Panel:
    """Build the panel of additional working folders. `remove` removes the folder in a row."""
    return Panel(
        "add-dir",
        ((("Additional folders", "strong"), *parse_inline_code("  `/add-dir FOLDER` adds one until you exit", "dim")),),
        tuple(PanelRow(folder, ((sanitise_line(folder), "text"),)) for folder in folders),
        "Up, Down   x remove   Esc close",
        empty_message="No additional folders.",
        actions=(PanelAction(("x",), "remove", remove),),
        search_placeholder="",
        max_list_lines=16,
    )


_MAX_LISTED_PATHS = 40
"""Maximum number of paths listed per kind of access."""
_ACCESS_LABELS: tuple[tuple[str, tuple[PathAccess, ...]], ...] = (
    ("writable", ("write",)),
    ("read-only inside it", ("read",)),
    ("hidden", ("hidden folder", "hidden file")),
)


def build_sandbox_panel(state: SandboxState, note: str, boundary: Boundary | None, home: str) -> Panel:
    """Build the sandbox panel. `note`: a remark, or why there is no sandbox."""
    title: Line = (
        ("Sandbox  ", "strong"),
        *parse_inline_code(_SANDBOX_TEXTS[state], "text" if boundary is not None else "warn"),
    )
    return build_report_panel("sandbox", title, tuple(_sandbox_lines(note, boundary, home)))


_SANDBOX_TEXTS: dict[SandboxState, str] = {
    "bubblewrap": "commands sandboxed (bubblewrap)",
    "landlock": "commands sandboxed (Landlock, which blocks less than bubblewrap)",
    "seatbelt": "commands sandboxed (macOS sandbox)",
    "none": "no sandbox: permission questions are the only protection",
    "off": "no sandbox: turned off by `agent.sandbox`",
}


_NETWORK_TEXTS: dict[NetworkMode, str] = {
    "open": "open",
    "proxy": "blocked, except domains allowed by a rule, e.g. `network(example.org)`",
    "none": "blocked",
}


def _sandbox_lines(note: str, boundary: Boundary | None, home: str) -> Iterator[Line]:
    if note:
        yield parse_inline_code(sanitise_line(note), "warn")
    if boundary is None:
        return
    yield parse_inline_code(f"network: {_NETWORK_TEXTS[boundary.network]}", "text")
    for label, accesses in _ACCESS_LABELS:
        paths = sorted(path for path, access in boundary.access_by_path.items() if access in accesses)
        if accesses == ("read",):
            paths = [path for path in paths if any(_is_inside(path, folder) for folder in _writable_paths(boundary))]
        yield ((f"{label}: {_count_text(len(paths))}", "text"),)
        yield from (((f"  {_path_text(path, home)}", "dim"),) for path in paths[:_MAX_LISTED_PATHS])
        if len(paths) > _MAX_LISTED_PATHS:
            yield ((f"  and {len(paths) - _MAX_LISTED_PATHS} more", "dim"),)
    yield (("/tmp is private to this session", "text"),)
    yield (("everything else is readable if you can read it", "text"),)
    yield parse_inline_code("`/add-dir` adds a folder; settings: `agent.sandbox`, `permissions.sandboxed`", "dim")


def _count_text(count: int) -> str:
    return {0: "none", 1: "one file or folder"}.get(count, f"{count:,} files and folders")


def _writable_paths(boundary: Boundary) -> Sequence[str]:
    return [path for path, access in boundary.access_by_path.items() if access == "write"]


def _is_inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _path_text(path: str, home: str) -> str:
    return sanitise_line("~" + path[len(home) :] if _is_inside(path, home) and home != "/" else path)


async def add_folder(context: CommandContext, path_text: str) -> None:
    session = context.controller.session
    if session is None:
        return context.controller.show_notice("no session yet to add a folder to")
    boundary = session.boundary
    if path_text.strip():
        try:
            added_folder = boundary.add_folder(path_text)
            context.controller.show_notice(f"`{added_folder}` is a working folder until you exit")
        except AgentError as error:
            context.controller.show_notice(str(error))
        return None

    async def remove(row: PanelRow, _: str) -> ActionOutcome:
        removed_folder = boundary.remove_folder(row.value)
        return replace(
            build_folders_panel(boundary.added_folders, remove),
            message=ShowMessage(f"{removed_folder} is no longer a working folder"),
        )

    await context.show(build_folders_panel(boundary.added_folders, remove))
    return None


async def show_sandbox(context: CommandContext, _: str) -> None:
    """Show the sandbox and its limits."""
    session = context.controller.session
    if session is None:
        return context.controller.show_notice("No session yet, so no sandbox. Send a message first.")
    boundary = session.boundary
    try:
        state, note, current_boundary = await asyncio.to_thread(
            lambda: (boundary.sandbox_state, boundary.sandbox_note, boundary.current_boundary())
        )
    except OSError as error:
        return context.controller.show_notice(f"cannot determine the sandbox limits: {error}")
    await context.show(build_sandbox_panel(state, note, current_boundary, str(Path.home())))
    return None
