"""What `/why` answers, as text: where a text went, a line for each place."""

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

from agent.context.provenance import Fate, Occurrence
from tools.extent import counted
from tui.text.inks import Ink, Line
from tui.text.sanitise import visible_line

SHORT: dict[Fate, str] = {
    "visible": "in view",
    "masked": "masked",
    "stored": "not shown",
    "summarised": "summarised",
    "dropped": "dropped",
}


def never_seen(text: str, told: Sequence[str]) -> str:
    """What is said when a text was nowhere."""
    return "\n".join(map(visible_line, (f"the model has never seen `{text}` in this session", *told)))


def count_of(text: str, places: int) -> str:
    return visible_line(f"`{text}` was said in {counted(places, 'place')}")


def newest_first(places: Sequence[Occurrence]) -> tuple[Occurrence, ...]:
    return tuple(reversed(places))


def occurrence_line(place: Occurrence, width: int, column: int) -> Line:
    """Reference, fate and what was done, as wide as the screen is together."""
    ink: Ink = "dim" if place.fate == "visible" else "warn"
    ref, fate = f"{place.ref:<{column}}  ", f"{SHORT[place.fate]:<10}  "
    room, what = max(8, width - len(ref) - len(fate)), visible_line(place.what)
    fitted = set_cell_size(what if cell_len(what) <= room else f"{set_cell_size(what, room - 1)}…", room)
    return ((ref, "accent"), (fate, ink), (fitted, "text"))


def fate_of(place: Occurrence) -> str:
    """What has become of it, in a sentence."""
    match place.fate:
        case "visible":
            return "in view: the model sees it"
        case "masked":
            return "masked: a line stands for the output"
        case "stored":
            return "not in view: other parts of it are"
        case "summarised":
            return f"summarised by {place.by}"
        case "dropped":
            return f"out of view: {place.by} keeps facts only" if place.by else "out of view"
