"""What is kept from request to request is what would be derived anew, whatever a session does."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.last_request import MessagesDigester, messages_digest
from ebbtide.agent.budget.prefix import PartCounter, RequestDigester, create_fingerprint
from ebbtide.agent.control_calls import TodoState, todo_state
from ebbtide.agent.messages import Assistant, Conversation, Message, ShortenedPart, Summary, User
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.prompt.view_cache import ViewCache
from ebbtide.agent.tokens.incremental import IncrementalFold
from ebbtide.agent.view.stubs import is_worth_masking
from ebbtide.agent.view.visible import count_outputs, numbered_outputs, visible_messages
from tests.kit.conversations import conversations

TEXT = Instructions("Be brief.", "here")


@st.composite
def grown(draw: st.DrawFn) -> list[Conversation]:
    """A conversation as it stands at each of its requests, now and then rewritten, forked or read anew."""
    whole = draw(conversations(max_steps=8))
    views, now = list[Conversation](), replace(whole, messages=())
    for end in range(1, len(whole.messages) + 1):
        now = replace(now, messages=(*now.messages, whole.messages[end - 1]))
        match draw(st.sampled_from(["go on"] * 6 + ["mask", "tell", "cut", "sum up", "read anew", "go back"])):
            case "mask":
                ids = [found.output.call_id for found in numbered_outputs(now)]
                now = replace(now, masked=frozenset(draw(st.sets(st.sampled_from(ids)))) if ids else frozenset())
            case "tell":
                number = draw(st.integers(1, 9))
                key = draw(st.sampled_from([f"r{number}", f"m{number}"]))
                now = replace(now, retold=(ShortenedPart(key, "line", "in short"),))
            case "cut" if len(now.messages) > 3:
                gone = now.messages[:2]
                now = replace(
                    now,
                    messages=now.messages[2:],
                    messages_before=now.messages_before + 2,
                    outputs_before=now.outputs_before + sum(len(m.outputs) for m in gone if isinstance(m, User)),
                )
            case "sum up":
                now = replace(now, summary=Summary(summary=draw(st.sampled_from(["a", "b"]))))
            case "read anew":
                now = replace(now, messages=tuple(replace(message) for message in now.messages))
            case "go back" if len(now.messages) > 2:
                views.append(replace(now, messages=now.messages[:-1]))
            case _:
                pass
        views.append(now)
    return views


@given(grown(), st.booleans())
def test_a_view_that_is_kept_is_the_one_that_would_be_made(views: list[Conversation], images: bool) -> None:
    view = ViewCache()
    for conversation in views:
        assert view.visible_messages(conversation) == visible_messages(conversation)
        assert view.build_prompt(conversation, TEXT, supports_images=images) == build_prompt(
            conversation, TEXT, supports_images=images
        )
        assert view.count_outputs(conversation) == count_outputs(conversation)
        texts = [message.text for message in conversation.messages if isinstance(message, User) and message.text]
        assert view.last_user_text(conversation) == (texts[-1] if texts else "")
        calls = [call.id for m in conversation.messages if isinstance(m, Assistant) for call in m.calls]
        assert view.call_ids(conversation) == set(calls)


@given(grown())
def test_what_is_known_of_a_request_is_what_would_be_found(views: list[Conversation]) -> None:
    view, lengths, digests, chain = ViewCache(), PartCounter(), RequestDigester(), MessagesDigester()
    fold: IncrementalFold[TodoState, Message] = IncrementalFold(TodoState, TodoState.plus)
    for conversation in views:
        messages = view.build_prompt(conversation, TEXT).messages
        length = lengths.counts_for(messages)
        assert (length.part_count, length.settled_part_count) == (
            sum(len(message.parts) for message in messages),
            settled(messages),
        )
        sent = create_fingerprint("s", (), messages, digester=digests)
        assert sent == create_fingerprint("s", (), messages)
        assert chain.digest_for(sent.messages) == messages_digest(sent, len(sent.messages))
        assert fold.value_for(messages) == todo_state(messages)


def settled(messages: tuple[Message, ...]) -> int | None:
    """The parts that are sent before the first output that a mask would change."""
    count = 0
    for message in messages:
        for index, output in enumerate(message.outputs if isinstance(message, User) else ()):
            if is_worth_masking(output):
                return count + index
        count += len(message.parts)
    return None


@given(grown())
def test_requests_that_only_grew_hold_the_same_messages(views: list[Conversation]) -> None:
    """Objects, not equal ones: what is known of each is known by that."""
    view = ViewCache()
    before = view.build_prompt(views[0], TEXT).messages
    for earlier, conversation in pairwise(views):
        after = view.build_prompt(conversation, TEXT).messages
        grew = replace(conversation, messages=()) == replace(earlier, messages=())
        if grew and all(a is b for a, b in zip(earlier.messages, conversation.messages, strict=False)):
            shared = min(len(before), len(after)) - 1
            assert all(a is b for a, b in zip(before[:shared], after, strict=False))
        before = after
