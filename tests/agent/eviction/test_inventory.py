"""Which outputs leave the view, and the stock of them that is kept from request to request."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate, chain

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.prices import FREE_MODEL_PRICES, UnitPrices
from ebbtide.agent.eviction.carrying_costs import (
    KEEP_COST_THRESHOLD,
    RewriteOffer,
    least_needed_items,
    mask_offer,
    maskable_items,
    old_maskable_items,
    refetch_cost_per_token,
)
from ebbtide.agent.eviction.inventory import MeasurementCache
from ebbtide.agent.eviction.settings import CompactionCaps, RewritePatience
from ebbtide.agent.messages import Assistant, Conversation, Message, ShortenedPart, Text, ToolCall, ToolOutput, User
from ebbtide.agent.tokens.estimate import estimate_message, estimate_output
from ebbtide.agent.view.visible import NumberedOutput, first_unseen_index, message_key, numbered_outputs, visible_output

PRICES, EAGER = UnitPrices(), RewritePatience(recall=0.01)


def lines(first: int, count: int) -> str:
    """What a read of so many lines shows."""
    return "\n".join(f"{number}\tsome words of a line" for number in range(first, first + count))


@st.composite
def steps(draw: st.DrawFn, number: int) -> tuple[Message, ...]:
    """Reads of parts of two files, writes of them, and commands: small outputs and large ones."""
    calls, outputs = list[ToolCall](), list[ToolOutput]()
    for index in range(draw(st.integers(1, 3))):
        id, path = f"c{number}-{index}", draw(st.sampled_from(["a.py", "./a.py", "b.py"]))
        match draw(st.sampled_from(["read", "read", "write", "bash"])):
            case "read":
                calls.append(ToolCall(id, "read", {"path": path}))
                text = lines(draw(st.integers(1, 20)), draw(st.sampled_from([1, 20, 60])))
            case "write":
                calls.append(ToolCall(id, "write", {"path": path, "content": "x"}))
                text = "written"
            case _:
                calls.append(ToolCall(id, "bash", {"command": "make"}))
                text = "x" * draw(st.sampled_from([5, 400, 3_000]))
        outputs.append(ToolOutput(id, text, draw(st.sampled_from(["done", "done", "done", "failed"]))))
    texts = (Text("And then?"),) if draw(st.booleans()) else ()
    words = draw(st.sampled_from(["", "", "Short.", "A plan. " * 900, "Another plan.\n" * 700]))
    reply = Assistant((Text(words), *calls) if words else tuple(calls), is_paused=draw(st.integers(0, 9)) == 0)
    return (reply, User((*outputs, *texts)))


@st.composite
def sessions(draw: st.DrawFn) -> list[Conversation]:
    """A conversation as it stands at each of its requests, with what is masked, retold and pinned by then."""
    now = Conversation((User((Text("Go."),)),), outputs_before=draw(st.integers(0, 3)))
    views = list[Conversation]()
    for number in range(draw(st.integers(1, 7))):
        now = now.plus(*draw(steps(number)))
        found = numbered_outputs(now)
        one = draw(st.sampled_from(found))
        match draw(st.sampled_from(["go on"] * 4 + ["mask", "tell", "tell reply", "pin", "pin reply", "cut"])):
            case "tell reply":
                now = replace(now, retold=(ShortenedPart(message_key(now.messages_before + 1), "preview", "its ends"),))
            case "pin reply":
                now = replace(now, pinned=now.pinned ^ {message_key(now.messages_before + len(now.messages) - 2)})
            case "mask":
                now = replace(now, masked=now.masked | {one.output.call_id})
            case "tell":
                now = replace(
                    now, retold=(ShortenedPart(one.ref, "line", draw(st.sampled_from(["short", "y" * 900]))),)
                )
            case "pin":
                now = replace(now, pinned=now.pinned ^ {one.ref})
            case "cut":
                gone = sum(len(message.outputs) for message in now.messages[1:3] if isinstance(message, User))
                outputs, messages = now.outputs_before + gone, now.messages_before + 3
                now = replace(now, messages=now.messages[3:], outputs_before=outputs, messages_before=messages)
            case _:
                pass
        if now.messages:
            views.append(now)
    return views


@given(sessions(), st.sampled_from([0, 100, 400, 2_000]), st.sampled_from([0, 0, 3, 99]), st.booleans())
def test_what_could_be_masked_is_known_without_looking_at_all_of_it(
    views: list[Conversation], protect: int, newest: int, is_cold: bool
) -> None:
    inventory, caps = (
        MeasurementCache(),
        CompactionCaps(protected_output_tokens=protect, protected_message_count=newest),
    )
    for conversation in views:
        for prices in (PRICES, FREE_MODEL_PRICES):
            offer = mask_offer(conversation, caps, 9_000, 500, prices, EAGER, is_cold=is_cold, inventory=inventory)
            assert offer == mask_offer(conversation, caps, 9_000, 500, prices, EAGER, is_cold=is_cold)
        due = [
            item
            for item in maskable_items(conversation, inventory.measure(conversation), newest)
            if item.key in offer.keys
        ]
        if due:
            sizes = [estimate_message(message) for message in conversation.messages]
            scale = 8_500 / sum(sizes)
            removed = int(scale * sum(item.tokens - item.stub_tokens for item in due))
            behind = max(int(scale * sum(sizes[due[-1].message_index :])) - removed, 0)
            assert (offer.removed_tokens, offer.cache_write_tokens) == (removed, behind)
        else:
            assert offer == RewriteOffer()


@given(sessions(), st.sampled_from([0, 100, 400, 2_000]), st.sampled_from([0, 0, 3, 99]))
def test_old_is_what_is_behind_so_many_tokens_and_has_been_seen(
    views: list[Conversation], protect: int, newest: int
) -> None:
    for conversation in views:
        stock, messages = MeasurementCache().measure(conversation), conversation.messages
        items = {item.key: item for item in stock.items}
        replacements = {one.key: one for one in conversation.retold}
        seen = min(first_unseen_index(messages), max(len(messages) - newest, 0))
        last = max(place for place, one in enumerate(messages) if isinstance(one, User) and one.outputs)
        expected, passed = list[str](), 0
        for found in reversed(numbered_outputs(conversation)):
            passed += estimate_output(visible_output(found, frozenset(), replacements))
            place = place_of(found, conversation)
            item = items.get(found.ref)
            if item is not None and place < seen and place != last and (passed > protect or item.is_superseded):
                expected.append(found.ref)
        assert [item.key for item in old_maskable_items(conversation, protect, newest) if not item.is_reply] == expected
        assert {item.key for item in stock.items}.isdisjoint(conversation.pinned)


@given(sessions(), st.integers(0, 4_000))
def test_the_least_wanted_leave_and_what_is_behind_them_and_not_worth_being_written_again(
    views: list[Conversation], enough: int
) -> None:
    conversation = views[-1] if views else Conversation()
    all_of_it, chosen = least_needed_items(conversation, 0, 1 << 62), least_needed_items(conversation, 0, enough)
    freed = list(accumulate((item.freed_tokens for item in all_of_it), initial=0))
    forced = all_of_it[: sum(so_far < enough for so_far in freed[:-1])]
    stock, first = (
        MeasurementCache().measure(conversation),
        min((item.message_index for item in forced), default=1 << 62),
    )
    behind = [
        item
        for item in all_of_it[len(forced) :]
        if item.message_index >= first and refetch_cost_per_token(item, stock) < KEEP_COST_THRESHOLD
    ]
    assert chosen == [*forced, *behind]


def step(number: int, name: str, arguments: Mapping[str, object], text: str) -> tuple[Message, ...]:
    call = ToolCall(f"c{number}", name, dict(arguments))
    return Assistant((call,)), User((ToolOutput(call.id, text),))


def test_where_the_window_is_full_commands_leave_before_files_that_may_be_wanted() -> None:
    whole = Conversation((User((Text("Go."),)),)).plus(
        *step(0, "read", {"path": "a.py"}, lines(1, 400)),
        *step(1, "bash", {"command": "make"}, "word " * 2_000),
        *step(2, "edit", {"path": "b.py"}, "word " * 400),
        *chain.from_iterable(step(number, "bash", {"command": "true"}, "ok") for number in range(3, 8)),
    )
    assert [item.key for item in least_needed_items(whole, 0, 1 << 62)] == ["r2", "r3", "r1"]


def place_of(found: NumberedOutput, conversation: Conversation) -> int:
    """The message that an output is in."""
    return next(
        place
        for place, message in enumerate(conversation.messages)
        if isinstance(message, User) and any(output is found.output for output in message.outputs)
    )
