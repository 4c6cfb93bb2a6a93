"""The stock that is kept from request to request says what looking at all outputs says."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from agent.context.estimate import estimate_message, output_size
from agent.context.inventory import Inventory, maskable
from agent.context.mask import STUB, Numbered, message_key, numbered_outputs, old_outputs, old_replies
from agent.context.rent import LOCAL, UnitPrices, mask_offer, wanted_again
from agent.context.settings import Caps
from agent.messages import Assistant, Conversation, Message, Retold, Text, ToolCall, ToolOutput, User

PRICES = UnitPrices()


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
    said = (Text("And then?"),) if draw(st.booleans()) else ()
    words = draw(st.sampled_from(["", "", "Short.", "A plan. " * 900, "Another plan.\n" * 700]))
    reply = Assistant((Text(words), *calls) if words else tuple(calls), is_paused=draw(st.integers(0, 9)) == 0)
    return (reply, User((*outputs, *said)))


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
                now = replace(now, retold=(Retold(message_key(now.messages_before + 1), "preview", "its ends"),))
            case "pin reply":
                now = replace(now, pinned=now.pinned ^ {message_key(now.messages_before + len(now.messages) - 2)})
            case "mask":
                now = replace(now, masked=now.masked | {one.output.call_id})
            case "tell":
                now = replace(now, retold=(Retold(one.ref, "line", draw(st.sampled_from(["short", "y" * 900]))),))
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
    inventory, caps = Inventory(), Caps(protect=protect, newest=newest)
    for conversation in views:
        found = old_outputs(conversation, protect, newest)
        replies = old_replies(conversation, protect, newest)
        items = maskable(conversation, caps, inventory.of(conversation))
        weighed = [(place_of(one, conversation), output_size(one.output), STUB) for one in found]
        weighed += [(old.index, old.reply.tokens, old.reply.left) for old in replies]
        weighed.sort(key=lambda one: one[0])
        assert [(item.place, item.tokens, item.left) for item in reversed(items)] == weighed
        for prices in (PRICES, LOCAL):
            offer = mask_offer(conversation, caps, 9_000, 500, prices, is_cold=is_cold, inventory=inventory)
            assert offer == mask_offer(conversation, caps, 9_000, 500, prices, is_cold=is_cold)
        if weighed:
            sizes = [estimate_message(message) for message in conversation.messages]
            places = [place for place, _, _ in weighed]
            scale = 8_500 / sum(sizes)
            removed = int(scale * sum(tokens - left for _, tokens, left in weighed))
            behind = max(int(scale * sum(sizes[places[0] :])) - removed, 0)
            assert (offer.removed, offer.behind) == (removed, behind)
            said = [isinstance(message, Assistant) for message in conversation.messages]
            again = min(len(weighed), wanted_again([sum(said[place + 1 :]) for place in reversed(places)]))
            fetched = 0.5 * again * (800 * LOCAL.write + 90 * LOCAL.output)
            assert abs(offer.cost - fetched - (0.0 if is_cold else LOCAL.write * behind)) < 1e-6


def place_of(found: Numbered, conversation: Conversation) -> int:
    """The message that an output is in."""
    return next(
        place
        for place, message in enumerate(conversation.messages)
        if isinstance(message, User) and any(output is found.output for output in message.outputs)
    )
