"""The places where something is remembered, as a list to choose from."""

from collections.abc import Sequence

from agent.input.memory import MemoryFile
from tui.text.sanitise import visible_line
from tui.view.panel import Panel, PanelRow


def memory_panel(places: Sequence[MemoryFile]) -> Panel:
    return Panel(
        "remember",
        ((("Remember it for", "strong"),),),
        tuple(
            PanelRow(
                str(place.path),
                ((f"  {place.about}", "text"), (f"  {visible_line(str(place.path))}", "dim")),
                f"{place.about}: {visible_line(str(place.path))}",
            )
            for place in places
        ),
        "Up, Down   Enter chooses   Esc cancels",
        empty="there is no such place",
        said="Remember it for",
        most=16,
    )
