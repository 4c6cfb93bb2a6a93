"""What an overview tells of a session that is open: real files, a scripted model."""

from dataclasses import replace

import pytest

from ebbtide.agent.budget.prices import Prices
from ebbtide.agent.budget.request_budget import REPORTED_BY_SERVER, Window
from ebbtide.agent.messages import Assistant, Conversation, Text, Usage, User
from ebbtide.agent.prompt.build import Instructions
from ebbtide.agent.providers.token_meter import TokenMeter
from ebbtide.agent.records.usage import RequestUsage
from ebbtide.agent.window.deferral import create_specs
from ebbtide.agent.window.overview import budget_by_component, resend_prices
from ebbtide.tools.catalog import create_builtin_tools
from tests.kit.project import Project
from tests.kit.session import events_of, first_turn


async def test_instructions_memories_and_skills_are_shown_by_themselves(project: Project) -> None:
    (project.root / "AGENT.md").write_text("Use tabs. " * 50)
    user = project.sessions().config.folders.config
    (user / "skills" / "deploy").mkdir(parents=True)
    (user / "memory.md").write_text("The user likes short answers.\n")
    (user / "skills" / "deploy" / "SKILL.md").write_text(
        "---\nname: deploy\ndescription: How to deploy.\n---\nPush it.\n"
    )
    session, _ = await first_turn(project.session({"text": "Done."}), "go")
    overview = await project.opened[-1].overview(session.id)
    names = [number.name for number in overview.components]
    assert names[:5] == ["system", "instructions", "memories", "skills", "tools"]


async def test_the_window_that_an_overflow_has_shown_is_the_one_that_is_told(project: Project) -> None:
    session = await project.session({"text": "long " * 20_000}, {"error": "overflow"}, {"text": "fine"})
    await events_of(session, "go")
    await events_of(session, "on")
    overview = await project.opened[-1].overview(session.id)
    assert (overview.window.source, overview.window.tokens < 200_000) == (REPORTED_BY_SERVER, True)
    assert overview.effective < overview.window.tokens


def test_tools_that_are_not_there_any_more_are_counted_as_they_were_sent() -> None:
    messages = (User((Text("go " * 100),)), Assistant((Text("fine"),), "m"))
    counted = Conversation(messages, anchor=Usage(input=5_000), anchored=2)
    tools = create_specs(create_builtin_tools())

    def sizes(conversation: Conversation, tool_tokens: int | None) -> dict[str, int]:
        window = Window(100_000, 4_000)
        numbers = budget_by_component(
            conversation, Instructions("base"), tools, window, True, TokenMeter(), tool_tokens
        )
        return {number.name: number.tokens for number in numbers}

    before, after = sizes(counted, None), sizes(counted, 4_000)
    assert (after["tools"], sum(after.values())) == (4_000, 5_000)
    assert after["history"] == before["history"] - (4_000 - before["tools"])
    assert sizes(replace(counted, anchor=None, anchored=0), 4_000)["tools"] == 4_000
    assert sizes(counted, 9_000)["history"] == 0


def test_what_was_not_read_from_a_cache_is_priced_as_fresh() -> None:
    def asked(*read: int) -> list[RequestUsage]:
        return [RequestUsage("step", "a/b", Usage(10, one, 0, 1), None, 0.0) for one in read]

    prices = Prices(3.0, 15.0, 0.3, 3.75)
    found = [resend_prices(prices, asked(*read)) for read in ((), (0,), (0, 0), (0, 900, 455))]
    assert found == [(), (), pytest.approx((3.0e-6,)), pytest.approx((0.3e-6, 1.65e-6))]
    assert resend_prices(None, asked(0, 0)) is None
    assert resend_prices(Prices(0, 0, 0, 0), asked(0, 0)) is None
