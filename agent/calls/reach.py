"""Decides whether a running command may reach a network place: by the rules, or else by asking the user, once per
place."""

import asyncio
import time
from collections.abc import Callable, Sequence

from ebbtide.agent.calls.approval import Approver, keep_rule
from ebbtide.agent.calls.network_rules import NETWORK
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import Policy, Ruling, decide
from ebbtide.agent.calls.rule_suggestions import offers_for
from ebbtide.agent.events.permissions import NetworkRefused, PermissionAnswered, PermissionAsked
from ebbtide.agent.events.session import Event
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.network.connection import is_named
from ebbtide.tools.network.places import NetworkPlace

MOST_ASKED = 20
"""Most places that the user is asked about for one command."""
_MAX_REFUSAL_EVENTS = 100
ANSWER_TIMEOUT_S = 300.0
"""Seconds that a command waits for an answer."""


def ruling_on(place: NetworkPlace, policy: Policy, private: Sequence[str] = ()) -> Ruling:
    """Decide about a place. `private`: the private hosts that the user has named."""
    ruling = decide(_fetch_request(place), policy)
    if ruling.verdict != "deny" and place.is_private and not is_named(place, private):
        why = f"`{place}` is not on the public network; the user can name it in the setting `web.private`"
        return Ruling("deny", f"{why}, and start with `--allow '{NETWORK}({place})'`")
    return ruling


def _fetch_request(place: NetworkPlace) -> PermissionRequest:
    return PermissionRequest(NETWORK, "fetch", (str(place),))


class CallReach:
    """What the command of one call may reach."""

    def __init__(
        self,
        call: ToolCall,
        approval: Approver,
        emit: Callable[[Event], None],
        private: Sequence[str] = (),
        patience: float = ANSWER_TIMEOUT_S,
    ) -> None:
        self._call = call
        self._approval = approval
        self._emit = emit
        self._private = private
        self._patience = patience
        self._said = dict[str, asyncio.Task[str]]()
        """The user's answer for each place, by its name in rules, valid for this command."""
        self._told = set[str]()
        """Places whose refusal was reported: programs retry."""
        self._open_since: float | None = None
        self._open_count = 0
        self._asked_before = 0.0

    @property
    def is_open(self) -> bool:
        """Whether rules open every place."""
        policy, everywhere = self._approval.policy, PermissionRequest(NETWORK, "fetch", ("*",))
        is_narrowed = any(rule.tool in (NETWORK, "web_fetch") and rule.prefix for rule in policy.deny)
        return decide(everywhere, policy).verdict == "allow" and not is_narrowed

    @property
    def seconds_asked(self) -> float:
        running = time.monotonic() - self._open_since if self._open_since is not None else 0.0
        return self._asked_before + running

    async def refusal(self, place: NetworkPlace) -> str:
        """Why the command may not reach the place; empty if it may."""
        ruling = ruling_on(place, self._approval.policy, self._private)
        if ruling.verdict == "allow":
            return ""
        if ruling.verdict == "deny":
            return self._report_refusal(place, ruling.rule)
        if self._approval.ask is None:
            how = f"there is no user to ask; the user can start with `--allow '{NETWORK}({place})'`"
            return self._report_refusal(place, f"{ruling.rule}, and {how}")
        if str(place) not in self._said:
            if not self._approval.can_ask():
                how = f"it came between turns, when nothing can be asked; the user can allow `{NETWORK}({place})`"
                return self._report_refusal(place, f"{ruling.rule}, and {how}")
            if len(self._said) >= MOST_ASKED:
                return self._report_refusal(place, f"{ruling.rule}, and a command may ask at most {MOST_ASKED} times")
            self._said[str(place)] = asyncio.create_task(self._answer(place, ruling))
        said = await asyncio.shield(self._said[str(place)])
        return self._report_refusal(place, said) if said else ""

    async def close(self) -> None:
        for task in self._said.values():
            task.cancel()
        await asyncio.gather(*self._said.values(), return_exceptions=True)

    def _report_refusal(self, place: NetworkPlace, why: str) -> str:
        if str(place) not in self._told and len(self._told) < _MAX_REFUSAL_EVENTS:
            self._told.add(str(place))
            self._emit(NetworkRefused(self._call.id, str(place), why))
        return why

    async def _answer(self, place: NetworkPlace, ruling: Ruling) -> str:
        """Why not; empty if the user allows it."""
        approval, call, asked = self._approval, self._call, _fetch_request(place)
        offers = offers_for(asked, approval.policy)
        question = PermissionAsked(
            f"network-{call.id}-{place}",
            call.id,
            call.name,
            call.arguments,
            f"the command is waiting: {ruling.rule}",
            offers=offers,
            rules_file=approval.rules.place if approval.rules is not None and offers else "",
            host=str(place),
        )
        self._note_asking(1)
        is_answered = False
        try:
            async with asyncio.timeout(self._patience):
                decision = await approval.answer_to(question, asked, self._emit)
            is_answered = True
        except TimeoutError:
            return f"{ruling.rule}, and the user did not answer within {self._patience:.0f} s"
        finally:
            self._note_asking(-1)
            if not is_answered:
                self._emit(PermissionAnswered(question.id, "deny"))
        if decision.verdict != "allow":
            return f"the user does not allow `{place}`" + (f": {decision.note}" if decision.note else "")
        if decision.rule:
            keep_rule(decision, approval, self._emit)
        return ""

    def _note_asking(self, more: int) -> None:
        """Count open questions, and the time during which there are any."""
        now = time.monotonic()
        if self._open_since is not None:
            self._asked_before += now - self._open_since
        self._open_count += more
        self._open_since = now if self._open_count else None
