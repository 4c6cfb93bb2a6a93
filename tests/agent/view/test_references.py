"""References as text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.messages import Assistant, Message, Note, Text, ToolCall, ToolOutput, User
from ebbtide.agent.view.references import (
    NO_LIMIT,
    BadReference,
    ByteRange,
    LineRange,
    Location,
    MatchPart,
    MessageRef,
    OutputRef,
    Reference,
    ReferenceTarget,
    SummaryRef,
    ToolPart,
    message_digits,
    parse_reference,
)

counts = st.integers(1, 10**15)
targets: st.SearchStrategy[ReferenceTarget] = st.one_of(
    st.builds(OutputRef, counts),
    st.builds(MessageRef, st.text("0123456789abcdef", min_size=1, max_size=8)),
    st.builds(SummaryRef, counts),
)
ranges = st.tuples(counts, counts).map(sorted)
locations: st.SearchStrategy[Location | None] = st.one_of(
    st.none(),
    st.builds(LineRange, counts, st.just(NO_LIMIT)),
    st.builds(ByteRange, counts, st.just(NO_LIMIT)),
    ranges.map(lambda pair: LineRange(pair[0], pair[1])),
    ranges.map(lambda pair: ByteRange(pair[0], pair[1])),
    st.builds(MatchPart, counts),
    st.builds(ToolPart, counts),
)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)


@given(st.builds(Reference, targets, locations, names, names) | st.builds(Reference, targets, locations))
def test_a_reference_reads_back_as_it_was_written(reference: Reference) -> None:
    assert parse_reference(str(reference)) == reference


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        ("r12", Reference(OutputRef(12))),
        (" [recall:r12] ", Reference(OutputRef(12))),
        *((text, Reference(OutputRef(12))) for text in ("R12", "`r12`", "[r12]", "recall:r12", "[`R12`]", '"r12"')),
        *((text, Reference(OutputRef(12))) for text in ("#r12", "ref r12", "[Output `r12`]", "ref_id=r12,")),
        *((text, Reference(OutputRef(12), LineRange(5, 5))) for text in ("r12:L5", "`r12:l5`", "[recall:R12:L5-5]")),
        *((f"r12{where}", Reference(OutputRef(12), LineRange(50, 60))) for where in (":L50-L60", ":50-60", "#L50–L60")),
        ("r12:7", Reference(OutputRef(12), LineRange(7, 7))),
        *((text, Reference(OutputRef(12), LineRange(50, 50))) for text in ("r12 L50", "R12#L50", "[r12: line 50]")),
        *((text, Reference(OutputRef(12), LineRange(50, 60))) for text in ("r12 lines 50-60", "r12:L50 – 60")),
        *((text, Reference(OutputRef(12), LineRange(50, NO_LIMIT))) for text in ("r12:L50-", "r12:50-", "`R12#L50–`")),
        ("r12:B4096-", Reference(OutputRef(12), ByteRange(4096, NO_LIMIT))),
        ("ebb://_/current/r12:L50-", Reference(OutputRef(12), LineRange(50, NO_LIMIT))),
        ("MSG-DEF67890", Reference(MessageRef("def67890"))),
        ("r12:L50-100", Reference(OutputRef(12), LineRange(50, 100))),
        ("r12:B0-4096", Reference(OutputRef(12), ByteRange(0, 4096))),
        ("sum-2", Reference(SummaryRef(2))),
        ("msg-def67890", Reference(MessageRef("def67890"))),
        ("ebb://my%20app/abc12345/r3:match-3", Reference(OutputRef(3), MatchPart(3), "abc12345", "my app")),
        ("nexora://cli/abc12345/msg-def67890:tool-2", Reference(MessageRef("def67890"), ToolPart(2), "abc12345", "cli")),  # noqa: E501  # one reference a line
        *((f"{session}/r1", Reference(OutputRef(1), session=session)) for session in ("aa11", "aa11bb22cc33")),
        ("[current/r1:match-3]", Reference(OutputRef(1), MatchPart(3))),
        ("my app/aa11bb22/msg-def6:L50-100", Reference(MessageRef("def6"), LineRange(50, 100), "aa11bb22", "my app")),
        ("NEXORA://_/current/msg-def67890", Reference(MessageRef("def67890"))),
    ],
)  # fmt: skip
def test_every_form_is_read(text: str, reference: Reference) -> None:
    assert parse_reference(text) == reference


NONE = (
    "", "r", "r0", "r-1", "r012", "r12:", "r12:L", "r12:L0-5", "r12:L5-x", "r12:X1-2", "msg-", "msg-XYZ",
    "msg-123456789", "sum-0", "ebb://", "ebb://a/b", "ebb://a/b/", "ebb://a/b/c/r1", "ebb:///b/r1", "http://a/b/r1",
    "r1 2", "r١", "r" + "9" * 30,
)  # fmt: skip
SEVERAL = ("r1-r3", "R1–r3", "r1, r2", "[r1 r2 r3]", "r1..r3", "r1 to r3", "`r1` and `r2`")
BEGINS_NOWHERE = ("r1:L-50", "r1:-50", "R1#L–L50", "r1:lines -50")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        *((text, r"is not a reference: write `r12`") for text in NONE),
        *(
            (text, rf"only a part of something: write `r12:{text}`")
            for text in ("match-3", "tool-2", "L5-9", "B0-4096")
        ),
        *((text, r"names several: give one at a time, first `r1`$") for text in SEVERAL),
        *((text, r"does not say where it begins: write `[rR]1:L1-50` for the first lines$") for text in BEGINS_NOWHERE),
        *((text, r"ends before it begins") for text in ("r1:L9-8", "r1:B9-8")),
    ],
)
def test_anything_else_is_refused_with_what_is_wrong_with_it(text: str, problem: str) -> None:
    with pytest.raises(BadReference, match=problem):
        parse_reference(text)


def test_a_message_has_the_same_digits_in_any_session() -> None:
    user_message = User((Text("fix it"),))
    messages: list[Message] = [
        user_message,
        User((ToolOutput("c1", "text"),)),
        User((ToolOutput("c2", "text"),)),
        Assistant((Text("fix it"), ToolCall("c1", "bash", {}))),
        User((Note("n"),)),
    ]
    digits = [message_digits(message) for message in messages]
    assert len(set(digits)) == 5
    assert all(len(one) == 8 for one in digits)
    assert message_digits(User((Text("fix it"), Note("told")))) == message_digits(user_message)


@pytest.mark.parametrize("written", ["r12.", "**r12**", "<r12>", "‘r12’,", "“[recall:r12]”;"])
def test_what_prose_writes_around_a_reference_is_no_part_of_it(written: str) -> None:
    assert parse_reference(written) == Reference(OutputRef(12))
