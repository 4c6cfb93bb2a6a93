"""What the user does to the view of the session: priced and done, for whoever shows it. It knows no widget."""

from dataclasses import dataclass

from agent.acting import do_act, price_act
from agent.context.acts import Cannot, Wish
from agent.errors import AgentError
from agent.events import Act, Event
from agent.undoing import offer_undo, undo
from tui.acts import proposal
from tui.blocks import Notice
from tui.numbers import dollars, tokens
from tui.ports import Session
from tui.receipts import Compaction, Undone, title_of
from tui.sanitise import visible_line
from tui.talk import Talk

NO_SESSION = "there is no session yet"
WORDS: dict[str, Act] = {
    "pin": "pin",
    "unpin": "unpin",
    "evict": "evict",
    "offload": "offload",
    "summarise": "summarise",
    "summarise-to": "summarise_before",
    "defer": "defer",
    "offer": "offer",
}
"""What may be written after `/context`, before what it is done to."""
USAGE = f"write `/context`, or `/context ACT REF` with one of {', '.join(WORDS)}, or `/context undo`"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What would be done, in one line."""

    text: str
    is_possible: bool


async def propose(talk: Talk, wish: Wish) -> Proposal:
    """What an act would do and cost. Raises `AgentError`, also while a turn runs."""
    priced = await _session(talk).change(price_act(wish))
    return Proposal(proposal(priced.plan, priced.dollars), not isinstance(priced.plan, Cannot))


async def carry_out(talk: Talk, wish: Wish) -> str:
    """Does it, and tells so in the transcript and in the line it gives. Raises `AgentError`, also while a turn runs."""
    acted = await _session(talk).change(do_act(wish))
    return _told(talk, acted.events)


async def propose_undo(talk: Talk) -> Proposal:
    """What taking the last rewrite back would do and cost. Raises `AgentError`."""
    event = (await _session(talk).change(offer_undo)).event
    price = "costs nothing" if not event.written else f"costs {_cost(event.written, event.cost)}"
    more = event.after_tokens - event.before_tokens
    size = f"shows {tokens(more)} tokens more" if more >= 0 else f"frees {tokens(-more)} tokens"
    return Proposal(f"undo the last change of the view: {size}, {price} now", is_possible=True)


async def carry_out_undo(talk: Talk) -> str:
    """Shows what was shown before the last rewrite. Raises `AgentError`."""
    return _told(talk, ((await _session(talk).change(undo)).event,))


async def propose_bring(talk: Talk, ref: str) -> Proposal:
    """What bringing a reference back would take. Raises `AgentError`."""
    event = await _session(talk).bring(ref, only_price=True)
    part = "" if event.is_whole else ", its beginning only"
    text = f"bring {event.ref} back to the end of the conversation{part}: takes {tokens(event.tokens)} tokens more"
    price = "nothing" if event.cost == 0 else _cost(event.tokens, event.cost)
    return Proposal(visible_line(f"{text}, costs {price} now"), is_possible=True)


async def carry_out_bring(talk: Talk, ref: str) -> str:
    """Shows the model again what a reference stands for. Raises `AgentError`."""
    return _told(talk, (await _session(talk).bring(ref),))


async def propose_written(talk: Talk, written: str) -> Proposal:
    """What it would do and cost that somebody wrote after `/context`. Raises `AgentError`."""
    wish = _read(written)
    return await (propose_undo(talk) if wish is None else propose(talk, wish))


async def carry_out_written(talk: Talk, written: str) -> None:
    """Does what somebody wrote after `/context`. Raises `AgentError`."""
    wish = _read(written)
    await (carry_out_undo(talk) if wish is None else carry_out(talk, wish))


def _read(written: str) -> Wish | None:
    """What somebody wants done; None to undo the last of it. Raises `AgentError`."""
    word, _, key = written.strip().partition(" ")
    if word == "undo" and not key.strip():
        return None
    if word not in WORDS or not key.strip():
        raise AgentError(f"`/context {visible_line(written)}` is nothing that can be done: {USAGE}")
    return Wish(WORDS[word], key.strip())


def _cost(written: int, cost: float | None) -> str:
    return f"the writing of {tokens(written)} tokens" if cost is None else dollars(cost)


def _told(talk: Talk, events: tuple[Event, ...]) -> str:
    for event in events:
        talk.advance(event)
    match talk.view.blocks[-1:]:
        case (Compaction() | Undone() as receipt,):
            return title_of(receipt)
        case (Notice(text=text),):
            return text
        case _:
            return "done"


def _session(talk: Talk) -> Session:
    if talk.session is None:
        raise AgentError(NO_SESSION)
    return talk.session
