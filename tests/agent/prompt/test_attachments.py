import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.compaction.plan import CompactionLimits, compute_limits, shorten_request
from ebbtide.agent.compaction.room import CompactionRoom, conversation_tokens
from ebbtide.agent.compaction.strategies import run_strategy
from ebbtide.agent.eviction.settings import CompactionCaps
from ebbtide.agent.messages import Assistant, Conversation, Image, Note, Text, ToolCall, ToolOutput, User, UserPart
from ebbtide.agent.prompt.attachments import (
    MIN_NOTE_BYTES,
    attachment_labels,
    compacted_request_parts,
    file_note,
    fit_message,
    folder_note,
    has_large_parts,
    image_note,
    is_attached_image,
    shrink_attachments,
)
from ebbtide.agent.prompt.mentions import pasted_note, piped_note
from ebbtide.agent.tokens.estimate import estimate_message, estimate_text
from ebbtide.agent.view.long_texts import sendable_text, truncate_part
from ebbtide.agent.view.message_text import steering_message
from ebbtide.agent.view.references import message_digits
from ebbtide.agent.view.visible import is_replaceable
from ebbtide.tools.outputs.extent import Extent
from ebbtide.tools.outputs.plain_text import printable_name
from tests.kit.conversations import filled

names = st.text(st.characters(exclude_characters="\n"), min_size=1).map(lambda name: f"@{name}")

entries = st.lists(st.text(st.characters(exclude_characters="\n()"), min_size=1), min_size=1)


@given(names, st.lists(st.text(st.characters(exclude_characters="\n(")), min_size=1))
def test_a_file_says_how_many_lines_of_it_there_are(name: str, lines: list[str]) -> None:
    plural = "" if len(lines) == 1 else "s"
    label = f"`{printable_name(name)}` ({len(lines):,} line{plural}"
    text = "\n".join(lines)
    assert attachment_labels([file_note(name, text)]) == (f"{label})",)
    extent = Extent("lines", len(lines), len(lines) + 1)
    assert attachment_labels([file_note(name, f"{text}\n(and more)", extent)]) == (f"{label} of it)",)


@given(names, entries, st.integers(0, 10**7))
def test_a_folder_says_how_many_entries_it_has(name: str, entries: list[str], left_out: int) -> None:
    count = len(entries) + left_out
    label = f"`{printable_name(name)}` (folder, {count:,} entr{'y' if count == 1 else 'ies'})"
    assert attachment_labels([folder_note(name, entries, left_out)]) == (label,)
    assert attachment_labels([folder_note(name, (), 0)]) == (f"`{printable_name(name)}` (folder, 0 entries)",)


@given(st.lists(st.text().map(Text) | st.text().map(Note) | st.just(Image("image/png", "x")) | names.map(image_note)))
def test_any_parts_can_be_looked_through(parts: list[UserPart]) -> None:
    labels = attachment_labels(parts)
    assert len(labels) <= sum(isinstance(part, Note) for part in parts)
    for index, part in enumerate(parts):
        if isinstance(part, Image) and index and isinstance(parts[index - 1], Image | Text):
            assert not is_attached_image(parts, index)


@given(names, st.text())
def test_what_was_pasted_is_not_attached(name: str, text: str) -> None:
    assert attachment_labels([pasted_note(name, text), Text(f"`{name}` holds:\n\n{text}")]) == ()


CAPS = CompactionCaps(tail=900, ledger=900)

LEAST_OF_A_NOTE = 250
"""Tokens that a note takes at most when it is shown as short as can be."""

notes = st.builds(
    Note, st.text(max_size=300) | st.builds(lambda text, times: text * times, filled, st.integers(1, 300))
)

pictures = st.builds(Image, st.just("image/png"), st.sampled_from(["aGk=", "eHg="]))

messages = st.builds(lambda said, beside: User((Text(said), *beside)), filled, st.lists(notes | pictures, max_size=4))

requests = st.builds(
    lambda said: User(tuple(part for message in said for part in compacted_request_parts(message))),
    st.lists(messages, min_size=1, max_size=3),
)


def words(request: User) -> list[object]:
    """All that may not change."""
    return [
        part
        for part in request.parts
        if isinstance(part, Text) or (isinstance(part, Note) and not is_replaceable(part))
    ]


@given(requests, st.integers(0, 3_000), st.booleans())
def test_what_the_user_said_stays_and_the_rest_gets_shorter_until_it_fits(
    request: User, most: int, pictures: bool
) -> None:
    shrunk = shrink_attachments(request, most, keeps_images=pictures)
    if pictures:
        assert [part for part in shrunk.parts if isinstance(part, Image)] == [
            part for part in request.parts if isinstance(part, Image)
        ]
    assert [part for part in words(request) if part in shrunk.parts] == words(request)
    assert len(shrunk.parts) == len(request.parts)
    assert estimate_message(shrunk) <= estimate_message(request)
    left = sum(isinstance(part, Note | Image) for part in request.parts)
    stays = Text | Image if pictures else Text
    fixed_size = estimate_message(User(tuple(part for part in request.parts if isinstance(part, stays))))
    assert estimate_message(shrunk) <= max(most, fixed_size + LEAST_OF_A_NOTE * left)
    if estimate_message(request) <= most:
        assert shrunk is request


@given(requests, st.integers(0, 3_000))
def test_what_fits_is_left_alone(request: User, most: int) -> None:
    shrunk = shrink_attachments(request, most)
    if estimate_message(shrunk) <= most:
        assert shrink_attachments(shrunk, most) is shrunk


@given(messages, st.integers(0, 500))
def test_what_is_shown_in_part_names_all_of_it(message: User, most: int) -> None:
    request = User(compacted_request_parts(message))
    name = f"msg-{message_digits(message)}"
    assert (name in str(request.parts[-1])) == has_large_parts(message)
    numbers = [part for part in request.parts if isinstance(part, Image)]
    for before, after in zip(request.parts, shrink_attachments(request, most, keeps_images=False).parts, strict=True):
        if before == after:
            continue
        assert isinstance(after, Note)
        wanted = f'ref_id="{name}:tool-' if isinstance(before, Image) else f'ref_id="{name}"'
        assert wanted in after.text
        assert not isinstance(before, Image) or any(f":tool-{at}" in after.text for at in range(1, len(numbers) + 1))


@given(st.lists(messages, min_size=1, max_size=4), st.integers(0, 2), st.integers(50, 2_000))
def test_a_request_with_steps_behind_it_gets_smaller_or_stays(said: list[User], steps: int, most: int) -> None:
    first, *later = said
    conversation = Conversation((first,))
    for number, message in enumerate(later):
        conversation = conversation.plus(*step(number), steering_message(message))
    for number in range(steps):
        conversation = conversation.plus(*step(10 + number))
    after = shorten_request(conversation, CAPS, most)
    if after is None:
        return
    assert conversation.messages[len(conversation.messages) - len(after.messages) :] == after.messages
    parts = [part for message in (after.summary.request, *after.messages) for part in message.parts]
    asked = [part for message in said for part in message.parts if isinstance(part, Text)]
    assert [part for part in parts if part in asked] == asked
    again = shorten_request(after, CAPS, most)
    assert again is None or conversation_tokens(again) < conversation_tokens(after)


def test_pictures_stay_unless_they_may_go() -> None:
    paste = Note("What the user pasted as [#1]:\n\n" + "a line of text\n" * 2_000)
    asked = User((Text("look"), paste, *[Image("image/png", "")] * 5))
    request = User(compacted_request_parts(asked))
    name = f"msg-{message_digits(asked)}"
    shrunk = shrink_attachments(request, 0)
    assert [type(part) for part in shrunk.parts] == [Text, Note, *[Image] * 5, Note]
    shrunk = shrink_attachments(request, 2_500, keeps_images=False)
    assert [type(part) for part in shrunk.parts] == [Text, Note, *[Note] * 5, Note]
    note = "[An image (image/png) is not shown because there is no room for it"
    assert [part.text for part in shrunk.parts[2:4] if isinstance(part, Note)] == [
        f'{note}: `recall` with ref_id="{name}:tool-{number}" shows it.]' for number in (1, 2)
    ]
    first = shrink_attachments(request, 0).parts[1]
    assert isinstance(first, Note)
    assert len(first.text) < MIN_NOTE_BYTES + 120


def test_the_names_of_outputs_that_are_not_shown_stay_whole() -> None:
    named = Note("[The newest step is not shown:\n" + "- Ran: true [recall:r1]\n" * 60 + "]", kind="step")
    request = User((Text("go on"), Note("a line\n" * 500, kind="file", name="a.py"), named))
    assert shrink_attachments(request, 0).parts[2] == named


def test_the_floor_counts_what_came_with_a_request_in_part() -> None:
    paste = Note("What the user pasted as [#1]:\n\n" + "a line of text\n" * 4_000)
    conversation = Conversation((User((Text("look"), paste)),))
    limits = compute_limits(conversation, CAPS, CompactionRoom(12_000, 2_000, 1_000))
    assert (limits.problem, limits.max_request_tokens) == ("", 3_300)
    after = run_strategy("attachments", conversation, CAPS, limits)
    assert after is not None
    assert (after.messages, conversation_tokens(after) < 4_000) == ((), True)
    assert run_strategy("attachments", after, CAPS, limits) is None
    words = Conversation((User((Text("a line of text\n" * 120),) * 30),))
    assert "your message" in compute_limits(words, CAPS, CompactionRoom(12_000, 2_000, 1_000)).problem
    assert run_strategy("attachments", words, CAPS, CompactionLimits(CAPS, 0)) is None


def test_words_that_no_window_holds_are_shown_by_their_ends_as_a_last_resort() -> None:
    huge = User((Text("first\n" + "a line of text\n" * 4_000 + "last"),))
    asked = User((Text("and now?"),))
    conversation = Conversation((huge, asked))
    limits = compute_limits(conversation, CAPS, CompactionRoom(12_000, 2_000, 1_000))
    assert limits.problem == ""
    assert run_strategy("pictures", conversation, CAPS, limits) is None
    after = run_strategy("shorten_text", conversation, CAPS, limits)
    assert after is not None
    texts = [part.text for part in after.summary.request.parts if isinstance(part, Text)]
    assert (after.messages, len(texts), conversation_tokens(after) < 4_000) == ((asked,), 1, True)
    assert texts[0].startswith("first\n")
    assert texts[0].endswith("\nlast")
    assert f'ref_id="msg-{message_digits(huge)}"' in texts[0]
    assert run_strategy("shorten_text", after, CAPS, limits) is None


def test_long_words_of_earlier_versions_are_named_by_themselves() -> None:
    huge = Text("a line of text\n" * 4_000)
    shrunk = shrink_attachments(User((huge, Text("short"))), 1_000, shortens_text=True)
    assert f'ref_id="msg-{message_digits(User((huge,)))}"' in shrunk.text
    assert shrunk.parts[1] == Text("short")


texts = st.builds(lambda text, times: text * times, st.text(st.characters(), max_size=40), st.integers(0, 900))


@given(
    st.lists(
        texts.map(Text) | texts.map(lambda text: pasted_note("[#1]", text)) | texts.map(piped_note),
        min_size=1,
        max_size=4,
    )
)
def test_a_message_takes_its_share_of_any_window_and_loses_nothing(parts: list[Text | Note]) -> None:
    message = User(tuple(parts))
    for effective, free in ((1_000, 0), (6_000, 2_000), (170_000, 150_000)):
        fitted = fit_message(message, effective, free)
        assert all(sendable_text(part.text) == part.text for part in fitted.parts if isinstance(part, Text | Note))
        assert [type(part) for part in fitted.parts] == [type(part) for part in message.parts]
        for before, after in zip(parts, fitted.parts, strict=True):
            assert isinstance(after, Text | Note)
            assert after == before or after.whole == before.text
            assert (
                after == before
                or f'ref_id="msg-{message_digits(fitted)}"' in after.text
                or sendable_text(before.text) == after.text
            )
        words = [
            part for part in fitted.parts if isinstance(part, Text) or (isinstance(part, Note) and part.kind == "piped")
        ]
        assert sum(estimate_text(part.text) for part in words) <= max(free // 2, 250) + 200 * len(parts)


def test_what_is_shown_in_part_can_be_shown_in_less() -> None:
    note = truncate_part(Note("".join(f"line {number}\n" for number in range(20_000))), 9_000, "msg-12345678")
    less = truncate_part(note, 900, "msg-12345678")
    assert less.whole == note.whole
    first, _, last = less.text.partition("\n[…")
    gap, _, end = last.partition("…]\n")
    assert int(gap.split()[0].replace(",", "")) == len(note.whole) - len(first) - len(end)
    assert note.whole.startswith(first)
    assert note.whole.endswith(end)
    assert "[…" not in first + end


def step(number: int) -> tuple[Assistant, User]:
    call = ToolCall(f"c{number}", "bash", {"command": "make"})
    return Assistant((call,), "m/a"), User((ToolOutput(call.id, "ok"),))


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("a line\n" * 9_000, "9,000 lines, 63,000 bytes, head and tail only"),
        ("\0\udcff" * 500, "1 line, 1,000 bytes, not text"),
        ("caf\udce9", "1 line, 4 bytes"),
    ],
)
def test_the_user_is_told_how_much_of_what_was_piped_in_is_shown(text: str, label: str) -> None:
    fitted = fit_message(User((piped_note(text),)), 30_000, 20_000)
    assert attachment_labels(fitted.parts) == (f"piped input ({label})",)
