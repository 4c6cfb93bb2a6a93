"""What the lines of masked outputs tell of names: each name once, and the same from request to request."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.eviction.carrying_costs import mask_by_keys
from ebbtide.agent.eviction.inventory import MeasurementCache
from ebbtide.agent.messages import Assistant, Conversation, Message, Text, ToolCall, ToolOutput, User
from ebbtide.agent.view.name_index import find_names
from ebbtide.agent.view.stub_identifiers import StubNameLists
from ebbtide.agent.view.visible import numbered_outputs, visible_messages

WORDS = "word " * 150


def step(number: int, names: str) -> tuple[Message, Message]:
    call = ToolCall(f"c{number}", "bash", {"command": "make"})
    return Assistant((call,)), User((ToolOutput(call.id, f"{WORDS}\n{names}"),))


def session(*names: str) -> Conversation:
    steps = [message for number, one in enumerate(names) for message in step(number, one)]
    return Conversation((User((Text("Go."),)), *steps))


def lines(conversation: Conversation) -> list[str]:
    return [found.stub_names.strip() for found in numbered_outputs(conversation)]


def test_a_name_is_told_by_the_line_of_the_first_output_in_which_it_stands() -> None:
    conversation = session("first_name second_name", "second_name third_name", "first_name", "short words")
    assert lines(conversation) == ["names in it: first_name second_name", "names in it: third_name", "", ""]


def test_a_name_for_which_the_first_line_has_no_room_is_told_by_the_next() -> None:
    some = " ".join(f"name_{letter}" * 4 for letter in "abcdefghijklmnopqr")
    first, second = lines(session(some, some))
    names = [line.removeprefix("names in it: ").removesuffix(" …").split() for line in (first, second)]
    assert [*names[0], *names[1]] == some.split()
    assert first.endswith(" …")
    assert not second.endswith(" …")


def test_what_differs_in_numbers_only_is_told_a_few_times() -> None:
    many = " ".join(f"test_{number}" for number in range(1_000, 1_020))
    assert lines(session(many, many)) == ["names in it: test_1000 test_1001 test_1002 …", ""]


def test_a_line_stays_as_it_is_whatever_follows_and_whatever_else_leaves() -> None:
    one, both = session("first_name"), session("first_name", "first_name second_name")
    visible = visible_messages(mask_by_keys(one, {"r1"}))
    assert visible_messages(mask_by_keys(both, {"r1"}))[: len(visible)] == visible
    assert visible_messages(mask_by_keys(both, {"r1", "r2"}))[: len(visible)] == visible


def test_without_the_first_output_another_one_tells_its_names() -> None:
    conversation = session("first_name", "first_name second_name")
    rest = replace(conversation, messages=conversation.messages[3:], messages_before=3, outputs_before=1)
    assert lines(rest) == ["names in it: first_name second_name"]


NAMES = st.lists(st.sampled_from([f"{a}_{b * 4}" for a in ("alpha", "beta") for b in "stuvwxyz"]), max_size=12)


@given(st.lists(NAMES, max_size=6))
def test_no_name_is_lost_that_has_room_and_none_is_told_twice(outputs: list[list[str]]) -> None:
    identifiers = StubNameLists()
    found = [
        identifiers.suffix_for(ToolOutput(f"c{n}", WORDS * 4 + " ".join(names))) for n, names in enumerate(outputs)
    ]
    names_in_stubs = [name for line in found for name in line.split() if "_" in name]
    assert len(names_in_stubs) == len(set(names_in_stubs))
    assert {name for names in outputs for name in names} == set(names_in_stubs) == set().union(*map(find_names, found))


@given(st.lists(NAMES, max_size=6))
def test_the_stock_knows_what_each_line_takes(outputs: list[list[str]]) -> None:
    conversation = session(*map(" ".join, outputs))
    items = MeasurementCache().measure(conversation).items
    assert [item.stub_tokens > 28 for item in items] == [
        bool(found.stub_names) for found in numbered_outputs(conversation)
    ]
