"""Manual context actions: pricing and running them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ebbtide.agent.context.view_edits import EditRequest, Refusal
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.view import Act
from ebbtide.agent.window.edit_view import do_act, price_act
from ebbtide.agent.window.undo import offer_undo, undo
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.text.numbers import dollars, tokens
from ebbtide.tui.text.sanitise import sanitised_line
from ebbtide.tui.view.blocks import Notice
from ebbtide.tui.view.edit_wording import proposal
from ebbtide.tui.view.receipts import Compaction, UndoneReceipt, title_of

if TYPE_CHECKING:  # types only: what a session is made of is loaded behind the first paint
    from ebbtide.agent.session import Session

NO_SESSION = "there is no session yet"
WORDS: dict[str, Act] = {
    "pin": "pin",
    "unpin": "unpin",
    "drop": "evict",
    "ends": "offload",
    "summarise": "summarise",
    "summarise-to": "summarise_before",
    "keep-out": "defer",
    "let-in": "offer",
}
"""Words after `/context` for each action."""
FORMER: dict[str, Act] = {"evict": "evict", "offload": "offload", "defer": "defer", "offer": "offer"}
"""Earlier words, still accepted."""
USAGE = f"write `/context`, or `/context ACT REF` with one of {', '.join(WORDS)}, or `/context undo`"


@dataclass(frozen=True, slots=True)
class Proposal:
    """What would be done, in one line."""

    text: str
    is_possible: bool


async def propose(controller: SessionController, wish: EditRequest) -> Proposal:
    """What an action would do and cost. Raises `AgentError`, also while a turn runs."""
    priced = await _session(controller).change(price_act, wish)
    return Proposal(proposal(priced.plan, priced.dollars), not isinstance(priced.plan, Refusal))


async def carry_out(controller: SessionController, wish: EditRequest) -> str:
    """Run an action; show and return the outcome. Raises `AgentError`, also while a turn runs."""
    acted = await _session(controller).change(do_act, wish)
    return _outcome_text(controller, acted.events)


async def propose_undo(controller: SessionController) -> Proposal:
    """What undoing the last rewrite would do and cost. Raises `AgentError`."""
    event = (await _session(controller).change(offer_undo)).event
    price = "costs nothing" if not event.written else f"costs {_cost(event.written, event.cost)}"
    more = event.after_tokens - event.before_tokens
    size = f"shows {tokens(more)} tokens more" if more >= 0 else f"frees {tokens(-more)} tokens"
    return Proposal(f"undo the last change of the view: {size}, {price} now", is_possible=True)


async def carry_out_undo(controller: SessionController) -> str:
    """Undo the last rewrite. Raises `AgentError`."""
    return _outcome_text(controller, ((await _session(controller).change(undo)).event,))


async def propose_bring(controller: SessionController, ref: str) -> Proposal:
    """What bringing a reference back would cost. Raises `AgentError`."""
    event = await _session(controller).bring(ref, only_price=True)
    part = "" if event.is_whole else ", its beginning only"
    text = f"bring {event.ref} back to the end of the conversation{part}: takes {tokens(event.tokens)} tokens more"
    price = "nothing" if event.cost == 0 else _cost(event.tokens, event.cost)
    return Proposal(sanitised_line(f"{text}, costs {price} now"), is_possible=True)


async def carry_out_bring(controller: SessionController, ref: str) -> str:
    """Bring a reference back into context. Raises `AgentError`."""
    return _outcome_text(controller, (await _session(controller).bring(ref),))


async def propose_written(controller: SessionController, written: str) -> Proposal:
    """What the action typed after `/context` would do and cost. Raises `AgentError`."""
    wish = _parse_request(written)
    return await (propose_undo(controller) if wish is None else propose(controller, wish))


async def carry_out_written(controller: SessionController, written: str) -> None:
    """Run the action typed after `/context`. Raises `AgentError`."""
    wish = _parse_request(written)
    await (carry_out_undo(controller) if wish is None else carry_out(controller, wish))


def _parse_request(written: str) -> EditRequest | None:
    """Parse the action; None for undo. Raises `AgentError`."""
    word, _, key = written.strip().partition(" ")
    if word == "undo" and not key.strip():
        return None
    act = WORDS.get(word) or FORMER.get(word)
    if act is None or not key.strip():
        raise AgentError(f"`/context {sanitised_line(written)}` is nothing that can be done: {USAGE}")
    return EditRequest(act, key.strip())


def _cost(written: int, cost: float | None) -> str:
    return f"the writing of {tokens(written)} tokens" if cost is None else dollars(cost)


def _outcome_text(controller: SessionController, events: tuple[Event, ...]) -> str:
    for event in events:
        controller.advance(event)
    match controller.view.blocks[-1:]:
        case (Compaction() | UndoneReceipt() as receipt,):
            return title_of(receipt)
        case (Notice(text=text),):
            return text
        case _:
            return "done"


def _session(controller: SessionController) -> "Session":
    if controller.session is None:
        raise AgentError(NO_SESSION)
    return controller.session
