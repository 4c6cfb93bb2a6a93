"""A rewrite of a long conversation: the loop goes on meanwhile, and each message is weighed no oftener than need be."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ebbtide.agent.compaction.apply_edits import apply_edit
from ebbtide.agent.compaction.compact import ForcedStrategy
from ebbtide.agent.compaction.manual_compaction import apply_summary, draft_summary, preview_compaction
from ebbtide.agent.compaction.rewrite import compact_now, ignore_event
from ebbtide.agent.compaction.view_edits import EditRequest
from ebbtide.agent.eviction.settings import CompactionSettings
from ebbtide.agent.messages import Assistant, Conversation, Message, Text, ToolCall, ToolOutput, User
from ebbtide.agent.providers.wires.scripted import ScriptedProvider
from ebbtide.agent.session import Session
from ebbtide.agent.tokens import estimate
from ebbtide.agent.tokens.estimate import TextCounts, TokenCounter
from ebbtide.agent.window.session_context import TurnContext, WindowContext
from tests.kit.session import ASKED, ROW, SMALL, Home

SUMMARY = {"when": ASKED, "text": "<retain>id 7</retain><summary>all was looked at</summary>"}
OUTPUT = "some line of an output\n" * 60


def turns(count: int) -> list[Message]:
    """A request, a step with an output and an answer each."""
    return [
        message
        for number in range(count)
        for message in (
            User((Text(f"please look at part {number}"),)),
            Assistant((ToolCall(f"c{number}", "bash", {"command": f"cat {number}"}),), ROW.model),
            User((ToolOutput(f"c{number}", f"{number}\n{OUTPUT}"),)),
            Assistant((Text(f"Part {number} is done."),), ROW.model),
        )
    ]


async def opened(home: Home, count: int) -> Session:
    """A session that goes on after so many turns."""
    session = await home.open(
        ScriptedProvider.from_replies(SUMMARY, {"text": "fine"}, context_window=10_000_000),
        compaction_settings=CompactionSettings(SMALL, policy="fixed"),
    )
    await session.change_conversation(lambda conversation, _, turn: said(turns(count), conversation, turn))
    return session


class UserMessage:
    def __init__(self, conversation: Conversation) -> None:
        self.conversation = conversation


async def said(messages: list[Message], conversation: Conversation, turn: TurnContext) -> UserMessage:
    for message in messages:
        if isinstance(message, User):
            await turn.recorder.record_user_message(message)
        else:
            await turn.recorder.record_reply(message)
    return UserMessage(conversation.plus(*messages))


def masked(conversation: Conversation, window: WindowContext, turn: TurnContext) -> Awaitable[Any]:
    return compact_now(
        conversation,
        window,
        turn,
        "rent",
        forced=ForcedStrategy("mask", item_keys=frozenset(f"r{number}" for number in range(1, 9))),
    )


async def rewritten_by_hand(session: Session) -> None:
    preview = await session.change_conversation(preview_compaction)
    drafted = await session.change_conversation(draft_summary, preview, ignore_event)
    await session.change_conversation(apply_summary, preview, drafted.draft, drafted, ignore_event)


REWRITES: dict[str, Callable[[Session], Awaitable[Any]]] = {
    "mask": lambda session: session.change_conversation(masked),
    "summary": lambda session: session.compact(),
    "by hand": rewritten_by_hand,
    "evicted": lambda session: session.change_conversation(apply_edit, EditRequest("evict", "r2")),
}
DECIDED = {
    "mask": (
        "compact.compute_limits",
        "compact.mask_by_keys",
        "compact.conversation_tokens",
        "compact.build_receipt",
        "rewrite.unchanged_message_count",
    ),
    "summary": (
        "compact.plan_compaction",
        "model_summary.output_reference_lines",
        "compact.apply_compaction",
        "compact.saves_a_tenth",
    ),
    "by hand": (
        "manual_compaction.compute_limits",
        "manual_compaction.caps_that_save_a_tenth",
        "manual_compaction.saves_a_tenth",
    ),
    "evicted": ("apply_edits.plan_view_edit",),
}
"""What is decided for each of them, by where it is called."""


@pytest.mark.parametrize(("how", "name"), [(how, name) for how, names in DECIDED.items() for name in names])
async def test_the_loop_goes_on_while_it_is_decided_what_leaves_the_view(
    home: Home, how: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, loop = await opened(home, 12), asyncio.get_running_loop()
    module, _, function = name.partition(".")
    place = __import__(f"ebbtide.agent.compaction.{module}", fromlist=[function])
    decide, asked = getattr(place, function), list[None]()

    async def beat() -> None:
        asked.append(None)

    def decided(*values: Any, **named: Any) -> object:
        asyncio.run_coroutine_threadsafe(beat(), loop).result(20)
        return decide(*values, **named)

    monkeypatch.setattr(place, function, decided)
    before = session.history
    await REWRITES[how](session)
    assert asked
    assert session.history != before


@pytest.mark.parametrize("how", REWRITES)
async def test_no_output_is_weighed_anew_for_each_question_that_a_rewrite_asks(
    home: Home, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    weighed = Counter[str]()
    count = estimate.count_text

    def counted(text: str, ruler: TokenCounter = estimate.BYTE_COUNTER) -> TextCounts:
        weighed[text] += 1
        return count(text, ruler)

    monkeypatch.setattr(estimate, "count_text", counted)
    session = await opened(home, 30)
    await REWRITES[how](session)
    weights = {f"r{number + 1}": weighed[f"{number}\n{OUTPUT}"] for number in range(30)}
    carried = {part.key for part in session.history.summary.carried}
    assert max(weights[key] for key in weights.keys() - carried) <= 3, "in its message, by itself, and for a summary"
    assert all(weights[key] <= 5 for key in carried), "and in the two views that a summary is compared in"
