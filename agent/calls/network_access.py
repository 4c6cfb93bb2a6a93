"""Decides whether a running command may connect to a network destination, that is, a host and port. If no rule decides,
the user is asked, once per destination."""

import asyncio
import time
from collections.abc import Callable, Sequence

from ebbtide.agent.calls.approval import Approver, add_chosen_rule
from ebbtide.agent.calls.network_rules import NETWORK_TOOL
from ebbtide.agent.calls.permission_request import PermissionRequest
from ebbtide.agent.calls.policy import Policy, Ruling, decide
from ebbtide.agent.calls.rule_suggestions import suggest_rules
from ebbtide.agent.events.permissions import NetworkRefused, PermissionAnswered, PermissionAsked
from ebbtide.agent.events.session import Event
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.network.connection import is_permitted_private
from ebbtide.tools.network.destinations import NetworkDestination
from ebbtide.tools.web_fetch import WebFetch

MAX_QUESTIONS_PER_COMMAND = 20
"""Maximum number of destinations that the user is asked about for one command."""
_MAX_REFUSAL_EVENTS = 100
ANSWER_TIMEOUT_S = 300.0
"""Seconds that a command waits for an answer."""


def destination_ruling(destination: NetworkDestination, policy: Policy, private_hosts: Sequence[str] = ()) -> Ruling:
    """Decide about a destination. `private_hosts`: the private hosts that the user has named in the settings."""
    ruling = decide(_fetch_request(destination), policy)
    if ruling.verdict != "deny" and destination.is_private and not is_permitted_private(destination, private_hosts):
        reason = f"`{destination}` is not on the public network; the user can name it in the setting `web.private`"
        return Ruling("deny", f"{reason}, and start with `--allow '{NETWORK_TOOL}({destination})'`")
    return ruling


def _fetch_request(destination: NetworkDestination) -> PermissionRequest:
    return PermissionRequest(NETWORK_TOOL, "fetch", (str(destination),))


class CallNetworkAccess:
    """Decides which network destinations the command of one call may connect to."""

    def __init__(
        self,
        call: ToolCall,
        approver: Approver,
        emit: Callable[[Event], None],
        private_hosts: Sequence[str] = (),
        answer_timeout: float = ANSWER_TIMEOUT_S,
    ) -> None:
        self._call = call
        self._approver = approver
        self._emit = emit
        self._private_hosts = private_hosts
        self._answer_timeout = answer_timeout
        self._answers = dict[str, asyncio.Task[str]]()
        """For each destination, by its name in rules, the task that asks the user about it. Answers are valid for this
        command only."""
        self._reported_destinations = set[str]()
        """Destinations whose refusal was already reported. It is not reported again."""
        self._questions_open_since: float | None = None
        self._open_question_count = 0
        self._finished_wait_seconds = 0.0

    @property
    def allows_all_hosts(self) -> bool:
        """Whether the rules allow all destinations."""
        policy, any_request = self._approver.policy, PermissionRequest(NETWORK_TOOL, "fetch", ("*",))
        is_narrowed = any(rule.tool in (NETWORK_TOOL, WebFetch.name) and rule.prefix for rule in policy.deny_rules)
        return decide(any_request, policy).verdict == "allow" and not is_narrowed

    @property
    def answer_wait_seconds(self) -> float:
        current_wait = time.monotonic() - self._questions_open_since if self._questions_open_since is not None else 0.0
        return self._finished_wait_seconds + current_wait

    async def refusal_reason(self, destination: NetworkDestination) -> str:
        """Return why the command may not connect to the destination; empty if it may."""
        ruling = destination_ruling(destination, self._approver.policy, self._private_hosts)
        if ruling.verdict == "allow":
            return ""
        if ruling.verdict == "deny":
            return self._report_refusal(destination, ruling.decided_by)
        if self._approver.ask_user is None:
            remedy = f"there is no user to ask; the user can start with `--allow '{NETWORK_TOOL}({destination})'`"
            return self._report_refusal(destination, f"{ruling.decided_by}, and {remedy}")
        if str(destination) not in self._answers:
            if not self._approver.can_ask():
                remedy = f"nothing can be asked between turns; the user can allow `{NETWORK_TOOL}({destination})`"
                return self._report_refusal(destination, f"{ruling.decided_by}, and {remedy}")
            if len(self._answers) >= MAX_QUESTIONS_PER_COMMAND:
                return self._report_refusal(
                    destination, f"{ruling.decided_by}, and a command may ask at most {MAX_QUESTIONS_PER_COMMAND} times"
                )
            self._answers[str(destination)] = asyncio.create_task(self._ask_user(destination, ruling))
        reason = await asyncio.shield(self._answers[str(destination)])
        return self._report_refusal(destination, reason) if reason else ""

    async def close(self) -> None:
        for task in self._answers.values():
            task.cancel()
        await asyncio.gather(*self._answers.values(), return_exceptions=True)

    def _report_refusal(self, destination: NetworkDestination, reason: str) -> str:
        if (
            str(destination) not in self._reported_destinations
            and len(self._reported_destinations) < _MAX_REFUSAL_EVENTS
        ):
            self._reported_destinations.add(str(destination))
            self._emit(NetworkRefused(self._call.id, str(destination), reason))
        return reason

    async def _ask_user(self, destination: NetworkDestination, ruling: Ruling) -> str:
        """Ask the user. Return why the destination is refused; empty if the user allows it."""
        approver, call, request = self._approver, self._call, _fetch_request(destination)
        offers = suggest_rules(request, approver.policy)
        question = PermissionAsked(
            f"network-{call.id}-{destination}",
            call.id,
            call.name,
            call.arguments,
            f"the command is waiting: {ruling.decided_by}",
            offers=offers,
            rules_file=approver.project_rules.path if approver.project_rules is not None and offers else "",
            host=str(destination),
        )
        self._adjust_open_question_count(1)
        is_answered = False
        try:
            async with asyncio.timeout(self._answer_timeout):
                decision = await approver.wait_for_decision(question, request, self._emit)
            is_answered = True
        except TimeoutError:
            return f"{ruling.decided_by}, and the user did not answer within {self._answer_timeout:.0f} s"
        finally:
            self._adjust_open_question_count(-1)
            if not is_answered:
                self._emit(PermissionAnswered(question.id, "deny"))
        if decision.verdict != "allow":
            return f"the user does not allow `{destination}`" + (f": {decision.note}" if decision.note else "")
        if decision.rule:
            add_chosen_rule(decision, approver, self._emit)
        return ""

    def _adjust_open_question_count(self, change: int) -> None:
        """Change the number of open questions, and update the total time during which at least one was open."""
        now = time.monotonic()
        if self._questions_open_since is not None:
            self._finished_wait_seconds += now - self._questions_open_since
        self._open_question_count += change
        self._questions_open_since = now if self._open_question_count else None
