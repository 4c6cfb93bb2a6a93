"""What `/why` answers: where a text went, a line for each place."""

from collections.abc import Sequence

from agent.context.why import Place
from tui.sanitise import visible_line

MOST_SHOWN = 20


def why_lines(text: str, places: Sequence[Place]) -> list[str]:
    """What has become of each place, the newest last, and how to bring one back that is out of view."""
    if not places:
        return [visible_line(f"the model has never seen `{text}` in this session")]
    lines = [f"`{text}` was said in {len(places)} place{'' if len(places) == 1 else 's'}"]
    if len(places) > MOST_SHOWN:
        lines[0] += f"; these are the last {MOST_SHOWN}"
    lines += [f"{place.ref}  {fate_of(place)}  {place.what}" for place in places[-MOST_SHOWN:]]
    away = [place for place in places if place.fate != "visible"]
    if away:
        lines.append(f"`/bring {away[-1].ref}` shows the model the last one that is out of view")
    return [visible_line(line) for line in lines]


def fate_of(place: Place) -> str:
    match place.fate:
        case "visible":
            return "in view"
        case "masked":
            return "masked: a line stands for the output"
        case "stored":
            return "not in view: other parts of the output are"
        case "summarised":
            return f"summarised by {place.by}"
        case "dropped":
            return f"out of view: {place.by} keeps facts only" if place.by else "out of view"
