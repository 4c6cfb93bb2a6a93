"""When something of an output was last named."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.eviction.inventory import MAX_OUTPUTS_PER_NAME, MeasurementCache, NamedOutputs
from ebbtide.agent.messages import Assistant, Conversation, Message, Text, ToolCall, ToolOutput, User
from ebbtide.agent.view.name_index import find_names
from ebbtide.agent.view.recalls import REUSE_ODDS

NAMES = [f"name_of_{letter}" for letter in "abcdefgh"]
LONG = "words that no one needs again " * 40


def output(key: str, *names: str) -> ToolOutput:
    return ToolOutput(key, "\n".join(names))


def said(*names: str) -> Message:
    return Assistant((Text(" and ".join(names)),))


def step(number: int, text: str, words: str = "", *, command: str = "make") -> tuple[Message, ...]:
    call = ToolCall(f"c{number}", "bash", {"command": command})
    return Assistant((Text(words), call) if words else (call,)), User((ToolOutput(call.id, text),))


def test_what_only_a_few_outputs_hold_names_them_and_what_many_hold_names_none() -> None:
    named = NamedOutputs()
    for number in range(MAX_OUTPUTS_PER_NAME + 1):
        named.add(f"r{number}", output(f"c{number}", "held_by_all", *(["held_by_some"] if number else [])))
    named.record_mentions(said("held_by_all", "never_held_by_any"), 4)
    assert named.last_mentions == {}
    named.record_mentions(said("held_by_some"), 5)
    assert named.last_mentions == {f"r{number}": 5 for number in range(1, MAX_OUTPUTS_PER_NAME + 1)}


def test_names_are_heard_in_words_of_the_user_and_of_the_model_and_in_calls_but_not_in_outputs() -> None:
    messages = {
        "user": User((Text("What of first_name?"),)),
        "model": said("second_name"),
        "call": Assistant((ToolCall("c9", "edit", {"edits": [{"old": "third_name = 1"}]}),)),
        "output": User((output("c9", "fourth_name"),)),
    }
    names = ("first_name", "second_name", "third_name", "fourth_name")
    for who, message in messages.items():
        named = NamedOutputs()
        for key, name in zip(messages, names, strict=True):
            named.add(key, output(key, name))
        named.record_mentions(message, 7)
        assert named.last_mentions == ({} if who == "output" else {who: 7})


@given(st.lists(st.tuples(st.booleans(), st.lists(st.sampled_from(NAMES), min_size=1, max_size=4)), max_size=30))
def test_an_output_is_named_when_a_later_text_says_what_at_most_three_hold_by_then(
    does: list[tuple[bool, list[str]]],
) -> None:
    named, mentioned, wanted = NamedOutputs(), dict[str, set[str]](), dict[str, int]()
    for number, (is_output, names) in enumerate(does):
        if is_output:
            named.add(f"r{number}", output(f"c{number}", *names))
            mentioned[f"r{number}"] = set(names)
            continue
        named.record_mentions(said(*names), number)
        for name in names:
            holders = [key for key, of in mentioned.items() if name in of]
            wanted |= dict.fromkeys(holders if len(holders) <= MAX_OUTPUTS_PER_NAME else [], number)
    assert named.last_mentions == wanted


@given(st.text(max_size=300))
def test_whatever_a_text_is_its_names_stand_in_it(text: str) -> None:
    assert all(name in text for name in find_names(text))


def test_an_output_that_is_spoken_of_is_as_likely_wanted_as_when_it_came_in() -> None:
    first = step(0, f"the_first_name {LONG}"), step(1, f"the_second_name {LONG}")
    later = [step(number, "ok", "It is the_second_name." if number == 6 else "") for number in range(2, 9)]
    whole = Conversation((User((Text("Go."),)),)).plus(*(message for one in (*first, *later) for message in one))
    stock = MeasurementCache().measure(whole)
    items = {item.key: item for item in stock.items}

    assert {key: (stock.replies_since(item), stock.replies_since_mention(item)) for key, item in items.items()} == {
        "r1": (8, 8),
        "r2": (7, 2),
    }
    assert stock.reread_probability(items["r2"]) == REUSE_ODDS.probability("program", items["r2"].tokens, 2)
    assert stock.reread_probability(items["r1"]) < stock.reread_probability(items["r2"])


def test_a_name_that_is_said_does_not_outlive_what_a_mask_or_a_pin_changes() -> None:
    whole = Conversation((User((Text("Go."),)),)).plus(
        *step(0, f"the_first_name {LONG}"), *step(1, f"other {LONG}", "the_first_name"), *step(2, "ok"), *step(3, "ok")
    )
    inventory = MeasurementCache()
    inventory.measure(whole)
    changed = replace(whole, masked=frozenset({"c1"}))
    fresh, reused = MeasurementCache().measure(changed), inventory.measure(changed)
    assert [(item.key, reused.replies_since_mention(item)) for item in reused.items] == [("r1", 2)]
    assert [fresh.replies_since_mention(item) for item in fresh.items] == [2]
