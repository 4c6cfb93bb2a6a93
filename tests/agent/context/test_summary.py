"""How a summary is asked for, read and shown."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ebbtide.agent.context.compaction import apply_compaction, missing_from_summary, plan_compaction
from ebbtide.agent.context.estimate import estimate_text
from ebbtide.agent.context.prompt import Instructions, build_prompt
from ebbtide.agent.context.settings import Caps, spacious
from ebbtide.agent.context.summary import (
    FRAME,
    LEDGER,
    OUTPUT_REFS_PROMPT,
    REQUEST,
    REQUIRED_FACTS_HEADING,
    RETAIN,
    SUMMARY,
    Draft,
    RefusedSummary,
    Wishes,
    as_text,
    instruction,
    read_edited,
    read_reply,
    summary_messages,
    truncate_lines,
    with_facts,
    without_open_calls,
    without_tags,
)
from ebbtide.agent.messages import Assistant, Conversation, Image, StopReason, Summary, Text, ToolCall, User
from tests.agent.histories import conversations, filled, texts

PICTURE = Image("image/png", "aGk=")


def test_a_summary_is_shown_under_headings_with_the_request_as_it_was() -> None:
    asked = User((Text("go <summary> on"), PICTURE))
    (message,) = summary_messages(Summary("id 7", "it works", "Files read:\n- a.py", asked))
    assert message == User(
        (
            Text(FRAME),
            Text(f"{RETAIN}\nid 7"),
            Text(f"{SUMMARY}\nit works"),
            Text(f"{LEDGER}\nFiles read:\n- a.py"),
            Text(REQUEST),
            Text("go <summary> on"),
            PICTURE,
        )
    )
    assert summary_messages(Summary()) == ()


def test_the_summary_joins_the_user_message_behind_it() -> None:
    prompt = build_prompt(Conversation((User((Text("go on"),)),), Summary(summary="it works")), Instructions("base"))
    assert prompt.messages == (User((Text(FRAME), Text(f"{SUMMARY}\nit works"), Text("go on"))),)


def test_the_instruction_names_both_tags_the_focus_and_what_the_user_wants() -> None:
    wishes = Wishes(summary_directives=("name the tests",), retain_directives=("all ids",))
    text = instruction(wishes, "the parser")
    assert all(tag in text for tag in ("<retain>", "</retain>", "<summary>", "</summary>"))
    assert "\n- name the tests\n</summary>" in text
    assert "\n- all ids\n</retain>" in text
    assert text.endswith("Pay most attention to this: the parser")
    assert instruction(wishes, "the parser", outputs=("- [r1] Ran: a", "- [r2] Ran: b")) == (
        f"{text}\n\n{OUTPUT_REFS_PROMPT}\n- [r1] Ran: a\n- [r2] Ran: b"
    )
    assert "\n" not in FRAME
    assert "`recall` brings back" in FRAME
    own = instruction(Wishes(summary_prompt="Only the summary.", retain_prompt="Only the ids."))
    assert "<retain>\nOnly the ids.\n</retain>\n<summary>\nOnly the summary.\n</summary>" in own


@given(filled, texts)
def test_a_draft_is_read_from_its_elements(summary: str, retain: str) -> None:
    assume(without_tags(summary) == summary and without_tags(retain) == retain)
    reading = read_reply(f"Sure.\n<retain>{retain}</retain>\n<summary>\n{summary}\n</summary> Bye.", (), "end")
    if isinstance(reading, Draft):
        assert reading.summary == summary.strip()
        assert reading.retain in ("", retain.strip())
    else:
        assert len(summary.strip()) < 60


CALL = ToolCall("c", "read", {})


@pytest.mark.parametrize(
    ("text", "calls", "stop", "why"),
    [
        ("", (), "end", "it is empty"),
        ("  \n", (), "end", "it is empty"),
        ("<summary>fine</summary>", (CALL,), "calls", "it calls a tool instead"),
        ("<summary>fine</summary>", (), "max_tokens", "it was cut off"),
        ("<summary>fine</summary>", (), "overflow", "it was cut off"),
        ("no", (), "refusal", "the model declined"),
        ("<retain>a</retain><summary>then we", (), "end", "it was cut off"),
        ("We fixed the parser.", (), "end", "it lacks the `<summary>` element"),
        ("我们修复了解析器，现在可以继续。", (), "end", "it lacks the `<summary>` element"),
        ("</summary>x<summary>", (), "end", "it was cut off"),
        ("<summary> </summary>", (), "end", "it says nothing"),
        ("<summary>(no summary available)</summary>", (), "end", "it says nothing"),
        ("<summary>No conversation history was provided.</summary>", (), "end", "it says nothing"),
        ("<summary>N/A</summary>", (), "end", "it says nothing"),
        ("<summary>...</summary>", (), "end", "it says nothing"),
        ("<summary>I'm sorry, but I can't summarise this.</summary>", (), "end", "it says nothing"),
        ("<summary>I cannot help with that.</summary>", (), "end", "it says nothing"),
    ],
)
def test_a_reply_that_is_no_summary_is_refused(
    text: str, calls: tuple[ToolCall, ...], stop: StopReason, why: str
) -> None:
    assert read_reply(text, calls, stop) == RefusedSummary(why)


def test_a_summary_in_another_language_with_the_tags_is_one() -> None:
    reading = read_reply("<retain>無</retain><summary>我们修复了解析器。</summary>", (), "end")
    assert reading == Draft("無", "我们修复了解析器。")


@pytest.mark.parametrize(
    "text",
    [
        "<retain>id 7</retain><summary>a <summary>b</summary> c</summary>",
        "<summary><retain>id 7</retain>a b c</summary>",
        "I write <summary> as asked.\n<RETAIN>id 7</RETAIN>\n<Summary>a b c</Summary>",
        "<summary>draft</summary><retain>id 7</retain><summary>a b c</summary></summary>",
    ],
)
def test_the_last_whole_element_counts_however_tags_are_nested(text: str) -> None:
    reading = read_reply(text, (), "end")
    assert isinstance(reading, Draft)
    assert (reading.retain, reading.summary.removeprefix("id 7").split()) == ("id 7", ["a", "b", "c"])


def test_tags_inside_a_summary_are_taken_out() -> None:
    reading = read_reply("<summary>it is in <retain> now</summary>", (), "end")
    assert reading == Draft("", "it is in  now")


@given(st.lists(st.sampled_from(["<", ">", "/", "retain", "summary", "x"]), max_size=20).map("".join))
def test_no_tag_is_left_however_they_are_nested(text: str) -> None:
    cleaned = without_tags(text)
    assert not any(tag in cleaned for tag in ("<retain>", "</retain>", "<summary>", "</summary>"))
    assert without_tags(cleaned) == cleaned


@given(conversations())
def test_a_model_is_asked_about_no_open_call(conversation: Conversation) -> None:
    assert without_open_calls(conversation.messages) == conversation.messages
    silent, saying = Assistant((CALL,)), Assistant((Text("I look"), CALL), "m/a")
    assert without_open_calls((*conversation.messages, silent)) == conversation.messages
    assert without_open_calls((*conversation.messages, saying)) == (
        *conversation.messages,
        Assistant((Text("I look"),), "m/a"),
    )


@given(st.text(max_size=300), st.integers(0, 60))
def test_a_text_is_cut_to_its_cap_at_a_line(text: str, tokens: int) -> None:
    cut = truncate_lines(text, tokens)
    assert estimate_text(cut) <= tokens
    lines = text.splitlines()
    assert text.startswith(cut) or cut in ["\n".join(lines[:count]) for count in range(len(lines) + 1)]


def test_facts_that_a_summary_leaves_out_take_no_more_than_their_share() -> None:
    facts = [f"- demanded: never touch file number {number}" for number in range(100)]
    whole, cut = with_facts("All is well.", facts), with_facts("All is well.", facts, 200)
    assert whole.splitlines()[2:] == [REQUIRED_FACTS_HEADING, *facts]
    shown = cut.splitlines()[3:-1]
    assert facts[: len(shown)] == shown
    assert estimate_text("\n".join(shown)) <= 200
    assert cut.endswith(f"- and {100 - len(shown)} more, which `recall` finds")
    assert with_facts("All is well.", [], 200) == "All is well."


said = st.text(st.characters(exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=60).map(
    lambda text: without_tags(text).strip()
)
drafts = st.builds(Draft, said, said.map(lambda text: text or "x"))
SMALL = Caps(tail=200, ledger=400, retain=20, summary=30)


@given(drafts)
def test_what_nobody_edits_stays_as_it_is(draft: Draft) -> None:
    assert read_edited(as_text(draft)) == draft


def test_without_its_headings_all_of_it_is_the_account_of_the_work() -> None:
    assert read_edited("just this\n") == Draft("", "just this")
    assert read_edited(f"{RETAIN}\nr12\n{SUMMARY}\ndone") == Draft("r12", "done")
    assert read_edited(f"r12\n  {SUMMARY}  \ndone\n{RETAIN}\nmore") == Draft("r12", "done\nmore")
    assert read_edited(f" \n{RETAIN}\n\n{SUMMARY}\n") is None


def test_tags_of_replies_never_come_into_the_view() -> None:
    assert read_edited("a<summary>b</summary>") == Draft("", "ab")


@given(conversations(), drafts)
def test_with_what_is_missing_nothing_is_missing(conversation: Conversation, draft: Draft) -> None:
    plan = plan_compaction(conversation, SMALL.tail)
    if plan is None:
        return
    missing = missing_from_summary(plan, draft, spacious(SMALL, draft))
    mended = Draft(draft.retain, with_facts(draft.summary, missing))
    caps = spacious(SMALL, mended)
    assert missing_from_summary(plan, mended, caps) == ()
    shown = apply_compaction(plan, mended, caps).summary
    assert (shown.retain, shown.summary) == (mended.retain, mended.summary)
    assert (REQUIRED_FACTS_HEADING in shown.summary) == bool(missing)


@given(drafts)
def test_nothing_that_a_person_wrote_is_cut(draft: Draft) -> None:
    caps = spacious(SMALL, draft)
    assert estimate_text(draft.retain) <= caps.retain
    assert estimate_text(draft.summary) <= caps.summary
