"""The answer to `/why`: where a text went, one line per place."""

from collections.abc import Sequence
from functools import partial

from ebbtide.agent.context.provenance import Fate, Occurrence, Trace
from ebbtide.tools.outputs.extent import pluralize
from ebbtide.tui.text.cells import fit_width
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.text.spans import Line, TextStyle, parse_inline_code
from ebbtide.tui.view.panel import Outcome, PagedText, PagedTexts, Panel, PanelAction, PanelRow, RowChosen, ShowMessage

KEYS = "Enter brings it back  o shows it whole  PgUp, PgDn read  Esc closes"
KEYS_IN_VIEW = "o shows it whole  PgUp, PgDn read  Esc closes"

SHORT: dict[Fate, str] = {
    "visible": "visible",
    "masked": "one line",
    "stored": "preview",
    "summarised": "summarised",
    "dropped": "dropped",
}


def never_seen(text: str, told: Sequence[str]) -> str:
    """The message if a text was not found."""
    return "\n".join(map(sanitised_line, (f"the model has never seen `{text}` in this session", *told)))


def count_of(text: str, places: int) -> str:
    return sanitised_line(f"`{text}` was said in {pluralize(places, 'place')}")


def newest_first(places: Sequence[Occurrence]) -> tuple[Occurrence, ...]:
    return tuple(reversed(places))


def places_panel(texts: PagedTexts, text: str, trace: Trace) -> Panel:
    """Each place with the text, its fate, and how to bring it back."""
    places = newest_first(trace.places)
    column = max((len(place.ref) for place in places), default=0)
    seen = {place.ref for place in places if place.fate == "visible"}

    async def bring(row: PanelRow, _: str) -> Outcome:
        if row.value not in seen:
            return RowChosen(row.value)
        return ShowMessage(f"the model sees `{row.value}` already: nothing has to be brought back", "warn")

    async def read(row: PanelRow, _: str) -> Outcome:
        return "whole"

    told = count_of(text, len(places))
    return Panel(
        "why",
        (
            (("Why  ", "strong"), *parse_inline_code(told, "dim")),
            *(((sanitised_line(each), "warn"),) for each in trace.unsearched),
        ),
        tuple(
            PanelRow(
                place.ref,
                partial(occurrence_line, place, column=column),
                sanitised_line(f"{place.ref}, {fate_of(place)}: {place.what}"),
                about=(((sanitised_line(fate_of(place)), "text" if place.fate == "visible" else "accent"),),),
                content=PagedText(texts, place.ref, text),
            )
            for place in places
        ),
        lambda row: KEYS_IN_VIEW if row.value in seen else KEYS,
        plain_head=f"{told}. A number brings one back into view.",
        actions=(PanelAction(("enter", "b"), "bring", bring), PanelAction(("o",), do=read)),
        search="",
        mark=next((place.ref for place in places if place.ref not in seen), ""),
        reads=True,
    )


def occurrence_line(place: Occurrence, width: int, column: int) -> Line:
    """Reference, fate and action, in one line of `width` cells."""
    ink: TextStyle = "dim" if place.fate == "visible" else "warn"
    ref, fate = f"{place.ref:<{column}}  ", f"{SHORT[place.fate]:<10}  "
    room, what = max(8, width - len(ref) - len(fate)), sanitised_line(place.what)
    return ((ref, "accent"), (fate, ink), (fit_width(what, room), "text"))


def fate_of(place: Occurrence) -> str:
    """Its fate, in a sentence."""
    match place.fate:
        case "visible":
            return "visible: the model sees it"
        case "masked":
            return "one line: it stands for the output, which is kept"
        case "stored":
            return "preview: only parts of it are visible"
        case "summarised":
            return f"summarised by {place.by}"
        case "dropped":
            return f"out of view: {place.by} keeps facts only" if place.by else "out of view"
