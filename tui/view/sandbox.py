"""The sandbox of a session and its limits, as lines. Pure."""

from collections.abc import Iterator, Sequence

from ebbtide.tools.sandbox.boundary import Access, Boundary, Network, SandboxState
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle, parse_inline_code
from ebbtide.tui.view.panel import Panel, report_panel

_MAX_LISTED_PATHS = 40
"""Maximum paths listed per kind."""
_WORDS: tuple[tuple[str, tuple[Access, ...]], ...] = (
    ("may be written", ("write",)),
    ("can only be read in there", ("read",)),
    ("is not seen", ("hidden folder", "hidden file")),
)


def sandbox_panel(state: SandboxState, note: str, limits: Boundary | None, home: str) -> Panel:
    """`note`: a remark, or why there is no sandbox."""
    told = tuple(_sandbox_lines(state, note, limits, home))
    lines: list[Line] = [((f"  {text}", ink),) if deep else parse_inline_code(text, ink) for deep, text, ink in told]
    head: Line = (("Sandbox  ", "strong"), *parse_inline_code(_KINDS[state], "text" if limits is not None else "warn"))
    said = [_KINDS[state], *(("  " if deep else "") + text for deep, text, _ in told)]
    return report_panel("sandbox", head, lines, said)


_KINDS: dict[SandboxState, str] = {
    "bubblewrap": "commands of the model run in bubblewrap",
    "landlock": "commands of the model run under Landlock, which keeps out less than bubblewrap",
    "seatbelt": "commands of the model run in the system's sandbox",
    "none": "there is no sandbox: the questions that you are asked are all the protection",
    "off": "there is no sandbox, as `agent.sandbox` says",
}


_NETWORK_TEXTS: dict[Network, str] = {
    "open": "every address can be reached",
    "proxy": "closed, but for domains that a rule opens, such as `network(example.org)`",
    "none": "closed",
}


def _sandbox_lines(
    state: SandboxState, note: str, limits: Boundary | None, home: str
) -> Iterator[tuple[bool, str, TextStyle]]:
    """Lines, each with whether it belongs to the one above."""
    if note:
        yield False, sanitised_line(note), "warn"
    if limits is None:
        return
    yield False, f"network: {_NETWORK_TEXTS[limits.network]}", "text"
    for words, kinds in _WORDS:
        paths = sorted(path for path, access in limits.places.items() if access in kinds)
        if kinds == ("read",):
            paths = [path for path in paths if any(_is_in(path, each) for each in _writable_paths(limits))]
        yield False, f"{words}: {_many(len(paths))}", "text"
        yield from ((True, _short(path, home), "dim") for path in paths[:_MAX_LISTED_PATHS])
        if len(paths) > _MAX_LISTED_PATHS:
            yield True, f"and {len(paths) - _MAX_LISTED_PATHS} more", "dim"
    yield False, "/tmp is a folder of the session's own", "text"
    yield False, "everything else can be read, as far as you can read it", "text"
    yield False, "`/add-dir` takes a further folder in; `agent.sandbox` and `permissions.sandboxed` are settings", "dim"


def _many(count: int) -> str:
    return {0: "nothing", 1: "one file or folder"}.get(count, f"{count:,} files and folders")


def _writable_paths(limits: Boundary) -> Sequence[str]:
    return [path for path, access in limits.places.items() if access == "write"]


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _short(path: str, home: str) -> str:
    return sanitised_line("~" + path[len(home) :] if _is_in(path, home) and home != "/" else path)
