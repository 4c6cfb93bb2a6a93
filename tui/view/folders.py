"""The additional working folders as a list, and the sandbox state in words. Pure."""

from collections.abc import Awaitable, Callable, Sequence

from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Span, parse_inline_code
from ebbtide.tui.view.panel import Outcome, Panel, PanelAction, PanelRow


def folders_panel(folders: Sequence[str], remove: Callable[[PanelRow, str], Awaitable[Outcome]]) -> Panel:
    """`remove`: removes the folder of a row."""
    return Panel(
        "add-dir",
        ((("Further folders", "strong"), *parse_inline_code("  `/add-dir FOLDER` adds one, until you leave", "dim")),),
        tuple(PanelRow(folder, ((sanitised_line(folder), "text"),)) for folder in folders),
        "Up, Down   x removes   Esc closes",
        empty="There is no other folder than the working folder.",
        actions=(PanelAction(("x",), "remove", remove),),
        search="",
        most=16,
    )


def sandbox_label(state: str, mode: str) -> Span:
    """The sandbox state in a word or two; empty if the full sandbox is on, unless nothing is asked. `state`: a
    `SandboxState`, or empty while unknown."""
    match state:
        case "":
            return ("", "dim")
        case "none":
            return ("no sandbox", "warn")
        case "off":
            return ("sandbox off", "warn" if mode == "auto" else "dim")
        case "landlock":
            return ("Landlock only", "warn")
        case _:
            return ("sandboxed" if mode == "auto" else "", "dim")
