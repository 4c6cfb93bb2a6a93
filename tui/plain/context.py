"""Commands about what the model sees, in lines: finding out, bringing back."""

from tui.plain.desk import LineContext, choose
from tui.text.sanitise import visible_line


async def why(desk: LineContext, text: str) -> None:
    from tui.view.provenance import count_of, fate_of, newest_first  # noqa: PLC0415  # deferred: loaded when it is first shown

    trace = await desk.talk.why(text)
    places = newest_first(trace.places)
    if not places:
        return
    desk.say(tuple(map(visible_line, trace.told)))
    rows = [visible_line(f"{place.ref}, {fate_of(place)}: {place.what}") for place in places]
    index = await choose(desk, f"{count_of(text, len(places))}. A number brings one back into view.", rows)
    if index is None:
        return
    if places[index].fate == "visible":
        desk.say((f"The model sees {places[index].ref} already: nothing has to be brought back.",))
    else:
        await desk.talk.bring(places[index].ref)


async def bring(desk: LineContext, ref: str) -> None:
    await desk.talk.bring(ref)
