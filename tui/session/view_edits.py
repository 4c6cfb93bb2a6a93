"""Manual context actions: predicting what they cost, and running them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ebbtide.agent.compaction.apply_edits import apply_edit, preview_edit
from ebbtide.agent.compaction.undo import preview_rewrite_undo, undo_rewrite
from ebbtide.agent.compaction.view_edits import EditRequest, Refusal
from ebbtide.agent.errors import AgentError
from ebbtide.agent.events.session import Event
from ebbtide.agent.events.view import Act, RewriteUndone
from ebbtide.tui.session.controller import SessionController
from ebbtide.tui.text.numbers import format_dollars, format_tokens
from ebbtide.tui.text.sanitise import sanitise_line
from ebbtide.tui.view.blocks import Notice
from ebbtide.tui.view.component_table import ComponentRow
from ebbtide.tui.view.receipts import Compaction, UndoneCompaction, edit_proposal, receipt_title

if TYPE_CHECKING:  # session modules load only after the first paint
    from ebbtide.agent.session import Session

NO_SESSION = "no session yet"
ACTION_WORDS: dict[str, Act] = {
    "pin": "pin",
    "unpin": "unpin",
    "drop": "evict",
    "ends": "offload",
    "summarise": "summarise",
    "summarise-to": "summarise_before",
    "keep-out": "defer",
    "let-in": "offer",
}
"""The word for each action, as typed after `/context`."""
FORMER_ACTION_WORDS: dict[str, Act] = {"evict": "evict", "offload": "offload", "defer": "defer", "offer": "offer"}
"""Action words from earlier versions. They are still accepted."""
ACTIONS_BY_KEY: dict[str, Act] = {
    "p": "pin",
    "d": "evict",
    "e": "evict",
    "o": "offload",
    "s": "summarise",
    "S": "summarise_before",
}
"""The key for each action in the list of components."""
USAGE = f"type `/context`, `/context undo` or `/context ACTION REF` (actions: {', '.join(ACTION_WORDS)})"


@dataclass(frozen=True, slots=True)
class Proposal:
    """One line about what an action would do and cost."""

    text: str
    is_possible: bool


async def propose_edit(controller: SessionController, request: EditRequest) -> Proposal:
    """Predict what an action would do and cost. Raises `AgentError`, for example during a turn."""
    quote = await _require_session(controller).change_conversation(preview_edit, request)
    return Proposal(edit_proposal(quote.plan, quote.dollars_per_token), not isinstance(quote.plan, Refusal))


async def run_edit(controller: SessionController, request: EditRequest) -> str:
    """Run an action, show its outcome and return it. Raises `AgentError`, for example during a turn."""
    result = await _require_session(controller).change_conversation(apply_edit, request)
    return _show_outcome(controller, result.events)


def act_for_key(key: str, row: ComponentRow | None) -> Act | None:
    """Return the action that a key runs on a row of the list of components, or None."""
    if row is not None and key == "d" and row.is_tool:
        return "offer" if row.state == "disabled" else "defer"
    if row is not None and key == "p" and row.is_pinned:
        return "unpin"
    return ACTIONS_BY_KEY.get(key)


def edit_of_row(act: Act, row: ComponentRow | None) -> EditRequest:
    """Return the action on a row. Raises `AgentError` if the row does not allow it."""
    if row is None or not row.key or (row.is_tool != (act in ("defer", "offer"))):
        target = "a tool or server" if act in ("defer", "offer") else "an output or message"
        raise AgentError(f"select {target} first")
    return EditRequest(act, row.key)


def ref_to_bring(row: ComponentRow | None) -> str:
    """Return the reference of a row whose content can be put back into context. Raises `AgentError`."""
    if row is None or not row.ref or row.is_tool:
        raise AgentError("select something removed or shortened to put it back")
    if row.state == "visible":
        raise AgentError(f"`{row.ref}` is already in context")
    return row.ref


async def preview_undo(controller: SessionController) -> RewriteUndone:
    """Return what undoing the last rewrite would change and cost. Raises `AgentError`."""
    return (await _require_session(controller).change_conversation(preview_rewrite_undo)).event


async def propose_undo(controller: SessionController) -> Proposal:
    """Predict what undoing the last rewrite would do and cost. Raises `AgentError`."""
    event = await preview_undo(controller)
    price = "costs nothing" if not event.written else f"costs {_cost_text(event.written, event.cost)}"
    added_tokens = event.after_tokens - event.before_tokens
    token_change = (
        f"adds {format_tokens(added_tokens)} tokens"
        if added_tokens >= 0
        else f"frees {format_tokens(-added_tokens)} tokens"
    )
    return Proposal(f"undo the last context change: {token_change}, {price} now", is_possible=True)


async def run_undo(controller: SessionController) -> str:
    """Undo the last rewrite. Raises `AgentError`."""
    return _show_outcome(controller, ((await _require_session(controller).change_conversation(undo_rewrite)).event,))


async def propose_bring_back(controller: SessionController, ref: str) -> Proposal:
    """Predict what bringing a reference back into context would cost. Raises `AgentError`."""
    event = await _require_session(controller).bring_back(ref, is_dry_run=True)
    extent_note = "" if event.is_whole else ", first part only"
    text = f"put {event.ref} at the end of the conversation{extent_note}: adds {format_tokens(event.tokens)} tokens"
    price = "nothing" if event.cost == 0 else _cost_text(event.tokens, event.cost)
    return Proposal(sanitise_line(f"{text}, costs {price} now"), is_possible=True)


async def run_bring_back(controller: SessionController, ref: str) -> str:
    """Bring a reference back into context. Raises `AgentError`."""
    return _show_outcome(controller, (await _require_session(controller).bring_back(ref),))


async def propose_typed_action(controller: SessionController, action_text: str) -> Proposal:
    """Predict what the action typed after `/context` would do and cost. Raises `AgentError`."""
    return await propose_edit(controller, _parse_request(action_text))


async def run_typed_action(controller: SessionController, action_text: str) -> None:
    """Run the action typed after `/context`. Raises `AgentError`."""
    await run_edit(controller, _parse_request(action_text))


def _parse_request(action_text: str) -> EditRequest:
    """Parse an action. Raises `AgentError`."""
    word, _, key = action_text.strip().partition(" ")
    act = ACTION_WORDS.get(word) or FORMER_ACTION_WORDS.get(word)
    if act is None or not key.strip():
        raise AgentError(f"`/context {sanitise_line(action_text)}` is not valid: {USAGE}")
    return EditRequest(act, key.strip())


def _cost_text(written_tokens: int, cost: float | None) -> str:
    return f"{format_tokens(written_tokens)} tokens" if cost is None else format_dollars(cost)


def _show_outcome(controller: SessionController, events: tuple[Event, ...]) -> str:
    for event in events:
        controller.show_event(event)
    match controller.view.blocks[-1:]:
        case (Compaction() | UndoneCompaction() as receipt,):
            return receipt_title(receipt)
        case (Notice(text=text),):
            return text
        case _:
            return "done"


def _require_session(controller: SessionController) -> "Session":
    if controller.session is None:
        raise AgentError(NO_SESSION)
    return controller.session
