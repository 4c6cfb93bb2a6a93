"""Beginnings of requests: what is compared, and where the cache may be cut, over arbitrary conversations."""

import copy
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget import prefix
from ebbtide.agent.budget.prefix import (
    BREAKPOINT_SPACING_PARTS,
    MAX_BREAKPOINTS,
    Breakpoints,
    PromptPart,
    RequestDigester,
    RequestFingerprint,
    cache_break_cause,
    create_fingerprint,
    first_difference,
    is_cache_miss,
    plan_breakpoints,
    serialise_canonically,
)
from ebbtide.agent.messages import Assistant, Conversation, Message, Note, Text, ToolOutput, Usage, User
from ebbtide.agent.prompt.build import Instructions, PromptBuilder, PromptSection, build_prompt
from ebbtide.agent.tool_specs import ToolSpec
from tests.kit.conversations import conversations, filled, texts

TOOLS = (ToolSpec("echo", "Says it again.", {"type": "object"}),)


def printed(conversation: Conversation, system: str = "base") -> RequestFingerprint:
    return create_fingerprint(system, TOOLS, build_prompt(conversation, Instructions(system)).messages)


@given(st.lists(st.tuples(filled, texts, st.booleans()), max_size=6))
def test_sections_keep_their_order_and_the_cacheable_come_first(sections: list[tuple[str, str, bool]]) -> None:
    builder = PromptBuilder()
    for name, text, cacheable in sections:
        builder = builder.add_section(name, text, is_cacheable=cacheable)
    given_ones = [PromptSection(*section) for section in sections if section[1]]
    stable = [section for section in given_ones if section.is_cacheable]
    rest = [section for section in given_ones if not section.is_cacheable]
    assert builder.sections == (*stable, *rest)
    text, ends = builder.build()
    assert text == "\n\n".join(section.text for section in (*stable, *rest))
    assert [text[:end] for end in ends] == ["\n\n".join(s.text for s in stable[: n + 1]) for n in range(len(stable))]


def test_the_system_text_goes_from_what_never_changes_to_what_does() -> None:
    instructions = Instructions("base", "here", "rules", "remembered", "skills")
    assert [section.name for section in instructions.sections] == [
        "base",
        "project",
        "memories",
        "skills",
        "environment",
    ]
    assert instructions.text == "base\n\nrules\n\nremembered\n\nskills\n\nhere"
    prompt = build_prompt(Conversation(), instructions)
    assert prompt.system[: prompt.shared_prefix_chars] == "base\n\nrules\n\nremembered"


@given(conversations(), st.integers(0, 200), st.integers(0, 4000), st.integers(0, 3000), st.integers(0, 20))
def test_breakpoints_are_few_in_order_and_never_below_the_minimum(
    conversation: Conversation, previous: int, minimum: int, static: int, stable: int
) -> None:
    messages = conversation.messages
    planned = plan_breakpoints(
        messages, previous, minimum, system="x" * 20, shared_system_chars=stable, static_tokens=static
    )
    assert planned.count <= MAX_BREAKPOINTS
    assert list(planned.system) == sorted({*planned.system})
    assert list(planned.parts) == sorted({*planned.parts})
    parts = sum(len(message.parts) for message in messages)
    assert all(0 < place <= parts for place in planned.parts)
    assert (20 in planned.system) == (static >= minimum)
    if static >= minimum:
        assert planned.parts[-1] == parts
        assert previous == 0 or min(previous, parts) in planned.parts


@given(st.integers(1, 300), st.integers(1, 300))
def test_the_newest_parts_are_within_reach_of_a_breakpoint(length: int, grown: int) -> None:
    messages = (User(tuple(Text("x") for _ in range(length))),)
    parts = plan_breakpoints(messages, max(length - grown, 0), 0, system="x").parts
    assert parts[-1] == length
    below = [length - place for place in parts[:-1]]
    assert min(below, default=length) <= BREAKPOINT_SPACING_PARTS or length <= BREAKPOINT_SPACING_PARTS


def test_where_breakpoints_stand_in_an_ordinary_session() -> None:
    step = (Assistant((Text("a"),)), User((Text("b"),)))
    first = plan_breakpoints((User((Text("go"),)),), 0, 1024, system="abc", shared_system_chars=2, static_tokens=9000)
    assert first == Breakpoints((2, 3), (1,))
    assert plan_breakpoints(step * 4, 6, 1024, system="abc", shared_system_chars=2, static_tokens=9000) == Breakpoints(
        (2, 3), (6, 8)
    )
    many = User(tuple(ToolOutput(str(n), "x") for n in range(30)))
    assert plan_breakpoints(
        (*step, many), 2, 1024, system="abc", shared_system_chars=2, static_tokens=9000
    ) == Breakpoints((3,), (2, 14, 32))
    assert plan_breakpoints(step, 0, 1024, system="abc", static_tokens=100) == Breakpoints()
    long = (User((Text("word " * 2000),)), *step)
    assert plan_breakpoints(long, 1, 1024, system="abc", static_tokens=100) == Breakpoints((), (1, 3))


@given(conversations(), conversations())
def test_a_request_is_the_beginning_of_the_next(conversation: Conversation, more: Conversation) -> None:
    longer = replace(conversation, messages=conversation.messages + more.messages)
    assert first_difference(printed(conversation), printed(longer)) is None


@given(conversations(), st.data())
def test_any_change_is_found_where_it_is(conversation: Conversation, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(conversation.messages) - 1))
    other = Text("something else entirely, and longer than any")
    message = conversation.messages[index]
    changed: Message = User((other,)) if isinstance(message, User) else Assistant((other, *message.parts[1:]))
    messages = (*conversation.messages[:index], changed, *conversation.messages[index + 1 :])
    before, after = create_fingerprint("s", TOOLS, conversation.messages), create_fingerprint("s", TOOLS, messages)
    assert first_difference(before, after) == f"message {index + 1}"


def test_every_part_of_a_request_is_compared() -> None:
    before = create_fingerprint("s", TOOLS, (User((Text("a"),)),), model="m", settings="high")
    others = {
        "model": replace(before, model="n"),
        "settings": replace(before, settings="low"),
        "system": create_fingerprint("t", TOOLS, (User((Text("a"),)),), model="m", settings="high"),
        "tools": create_fingerprint("s", (), (User((Text("a"),)),), model="m", settings="high"),
        "message 1": create_fingerprint("s", TOOLS, (), model="m", settings="high"),
    }
    assert {where: first_difference(before, after) for where, after in others.items()} == {
        where: where for where in others
    }


def test_a_note_is_not_what_the_user_said() -> None:
    user_text, program_note = (create_fingerprint("s", (), (User((part,)),)) for part in (Text("a"), Note("a")))
    assert first_difference(user_text, program_note) == "message 1"


def test_where_an_output_is_kept_is_not_sent() -> None:
    outputs = (ToolOutput("c", "x"), ToolOutput("c", "x", whole="/somewhere/else"))
    first, second = (create_fingerprint("s", (), (User((output,)),)) for output in outputs)
    assert first == second


@given(conversations())
def test_what_is_remembered_changes_no_digest(conversation: Conversation) -> None:
    """Also of a conversation that was read back: equal, but of other objects."""
    digests = RequestDigester()
    messages = conversation.messages
    for end in range(len(messages) + 1):
        assert create_fingerprint("s", TOOLS, messages[:end], digester=digests) == create_fingerprint(
            "s", TOOLS, messages[:end]
        )
    restored = copy.deepcopy(messages)
    assert create_fingerprint("s", TOOLS, restored, digester=digests) == create_fingerprint("s", TOOLS, messages)


def test_a_message_is_hashed_once_whatever_requests_it_is_in(monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[PromptPart | ToolSpec] = []

    def watched(part: PromptPart | ToolSpec) -> bytes:
        hashed.append(part)
        return serialise_canonically(part)

    monkeypatch.setattr(prefix, "serialise_canonically", watched)
    digests, messages = RequestDigester(), tuple(User((Text(str(n)),)) for n in range(100))
    create_fingerprint("s", TOOLS, messages, digester=digests)
    assert hashed == [*TOOLS, *(message.parts[0] for message in messages)]
    hashed.clear()
    create_fingerprint("s", (*TOOLS,), (*messages, User((Text("new"),))), digester=digests)
    create_fingerprint("s", TOOLS, messages[:1], digester=digests)
    create_fingerprint("s", TOOLS, (*messages[50:], *messages[:50]), digester=digests)
    assert hashed == [Text("new")]


def test_a_cache_is_broken_by_much_and_by_a_share() -> None:
    def broken(cached: int, read: int) -> bool:
        return is_cache_miss(cached, Usage(cache_read=read))

    assert [broken(*case) for case in ((10_000, 7_999), (10_000, 8_000), (100_000, 95_001), (100_000, 94_999))] == [
        True, False, False, True,
    ]  # fmt: skip


def test_the_likely_cause_of_a_break() -> None:
    before = create_fingerprint("s", TOOLS, (), model="m")
    assert cache_break_cause(before, before, 10, 300) == "unknown"
    assert cache_break_cause(before, before, 301, 300) == "ttl expired"
    assert cache_break_cause(before, replace(before, model="n"), 301, 300) == "model switched"
    assert cache_break_cause(before, replace(before, tools="n"), 10, 300) == "tools changed"
    assert cache_break_cause(before, replace(before, system="n"), 10, 300) == "system changed"
