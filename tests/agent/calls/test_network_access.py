"""What a running command may reach: by rules, by the user's answer, and where nobody is there."""

import asyncio
from dataclasses import dataclass, field

import pytest

from ebbtide.agent.calls.approval import Approver
from ebbtide.agent.calls.network_access import MAX_QUESTIONS_PER_COMMAND, CallNetworkAccess
from ebbtide.agent.calls.policy import Policy, parse_rule
from ebbtide.agent.config.options import PermissionMode
from ebbtide.agent.events.permissions import Decision, NetworkRefused, PermissionAnswered, PermissionAsked
from ebbtide.agent.events.session import Event
from ebbtide.agent.messages import ToolCall
from ebbtide.tools.network.destinations import NetworkDestination, parse_destination
from tests.kit.polling import until

CALL = ToolCall("c1", "bash", {"command": "pip install x"})
INDEX, FILES = parse_destination("example.com:443"), parse_destination("files.example.net:443")
YES = Decision("allow")
NO_RULE = "no rule allows network access to `example.com`"


@dataclass
class RulesInMemory:
    path: str = "/home/me/rules.json"
    saved: list[str] = field(default_factory=list)

    def add_rule(self, rule: str) -> None:
        self.saved.append(rule)


@dataclass
class User:
    """Answers when the test says so."""

    decision: Decision = YES
    questions: list[PermissionAsked] = field(default_factory=list)
    is_there: asyncio.Event = field(default_factory=asyncio.Event)

    async def ask(self, question: PermissionAsked) -> Decision:
        self.questions.append(question)
        await self.is_there.wait()
        return self.decision


@dataclass
class Reaching:
    approval: Approver
    events: list[Event] = field(default_factory=list)
    private: tuple[str, ...] = ()
    patience: float = 20.0

    def call(self) -> CallNetworkAccess:
        return CallNetworkAccess(CALL, self.approval, self.events.append, self.private, self.patience)

    async def refusal(self, place: NetworkDestination = INDEX) -> str:
        return await self.call().refusal_reason(place)


def reaching(
    user: User | None, mode: PermissionMode = "ask", allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()
) -> Reaching:
    policy = Policy("/app", mode, tuple(map(parse_rule, allow)), tuple(map(parse_rule, deny)))
    return Reaching(Approver(policy, user.ask if user else None, project_rules=RulesInMemory()))


async def test_a_rule_opens_a_place_without_a_question_and_another_closes_it() -> None:
    assert await reaching(None, allow=("network(example.com)",)).refusal() == ""
    closed = reaching(User(), allow=("network",), deny=("network(example.com)",))
    reach = closed.call()
    assert [await reach.refusal_reason(INDEX), await reach.refusal_reason(INDEX)] == [
        "deny rule network(example.com)"
    ] * 2
    assert closed.events == [NetworkRefused("c1", "example.com", "deny rule network(example.com)")]


@pytest.mark.parametrize("mode", ["ask", "auto"])
async def test_where_nobody_is_there_the_refusal_names_the_rule_and_the_flag(mode: PermissionMode) -> None:
    refusal = await reaching(None, mode).refusal()
    assert (
        refusal == f"{NO_RULE}, and there is no user to ask; the user can start with `--allow 'network(example.com)'`"
    )


async def test_the_user_is_asked_once_a_place_however_often_a_command_tries() -> None:
    user = User()
    reach = reaching(user, "auto").call()
    tries = [
        asyncio.create_task(reach.refusal_reason(place))
        for place in (INDEX, INDEX, FILES, parse_destination("Example.COM.:80"))
    ]
    await until(lambda: len(user.questions) == 2)
    assert [(one.host, one.arguments, one.offers, one.rules_file) for one in user.questions] == [
        (host, CALL.arguments, (f"network({host})",), "/home/me/rules.json")
        for host in ("example.com", "files.example.net")
    ]
    user.is_there.set()
    assert await asyncio.gather(*tries) == [""] * 4
    assert (await reach.refusal_reason(INDEX), len(user.questions)) == ("", 2)
    assert 0 < reach.answer_wait_seconds == reach.answer_wait_seconds


async def test_yes_holds_for_the_command_and_a_rule_for_those_that_come() -> None:
    user = User()
    user.is_there.set()
    once = reaching(user)
    assert [await once.refusal(), await once.refusal(), len(user.questions)] == ["", "", 2]
    user.decision = Decision("allow", rule="network(example.com)", scope="project")
    assert [await once.refusal(), await once.refusal(), len(user.questions)] == ["", "", 3]
    assert isinstance(once.approval.project_rules, RulesInMemory)
    assert once.approval.project_rules.saved == ["network(example.com)"]


async def test_no_is_told_with_the_users_words_and_not_asked_again() -> None:
    user = User(Decision("deny", note="use the wheels in vendor/"))
    user.is_there.set()
    reach = reaching(user).call()
    refusals = [await reach.refusal_reason(INDEX) for _ in range(3)]
    assert refusals == ["the user does not allow `example.com`: use the wheels in vendor/"] * 3
    assert len(user.questions) == 1


async def test_one_command_is_not_asked_about_without_end() -> None:
    user = User()
    user.is_there.set()
    reach = reaching(user).call()
    refusals = [
        await reach.refusal_reason(parse_destination(f"{number}.org.example:443"))
        for number in range(MAX_QUESTIONS_PER_COMMAND + 1)
    ]
    assert [bool(each) for each in refusals] == [False] * MAX_QUESTIONS_PER_COMMAND + [True]
    assert len(user.questions) == MAX_QUESTIONS_PER_COMMAND


async def test_a_question_that_nobody_answers_is_withdrawn() -> None:
    asked = reaching(User())
    asked.patience = 0.01
    assert await asked.refusal() == f"{NO_RULE}, and the user did not answer within 0 s"
    assert asked.events[0] == PermissionAnswered("network-c1-example.com", "deny")


async def test_a_question_goes_with_its_command() -> None:
    user = User()
    asked = reaching(user)
    reach = asked.call()
    waiting = asyncio.create_task(reach.refusal_reason(INDEX))
    await until(lambda: bool(user.questions))
    await reach.close()
    assert asked.events == [PermissionAnswered(user.questions[0].id, "deny")]
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_between_two_turns_nobody_is_asked() -> None:
    user = User()
    asked = reaching(user)
    asked.approval.can_ask = lambda: False
    reason = "nothing can be asked between turns; the user can allow `network(example.com)`"
    assert await asked.refusal() == f"{NO_RULE}, and {reason}"
    assert user.questions == []


@pytest.mark.parametrize("place", ["localhost:5432", "10.0.0.5:80", "169.254.169.254:80", "[::1]:80"])
async def test_private_places_are_closed_unless_the_user_has_named_them_and_a_rule_opens_them(place: str) -> None:
    asked = reaching(User(), allow=("network",))
    named = parse_destination(place)
    how = f"the user can name it in the setting `web.private`, and start with `--allow 'network({named})'`"
    assert await asked.refusal(named) == f"`{named}` is not on the public network; {how}"
    asked.private = (place,)
    assert await asked.refusal(parse_destination(place)) == ""


def test_everything_is_open_only_where_no_rule_narrows_it() -> None:
    assert reaching(None, allow=("network",)).call().allows_all_hosts
    assert not reaching(None, allow=("network",), deny=("network(evil.net)",)).call().allows_all_hosts
    assert not reaching(None, allow=("network(example.org)", "network(*.org)")).call().allows_all_hosts
