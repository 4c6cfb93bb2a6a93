"""How a summary is asked for, read and shown."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ebbtide.agent.compaction.plan import apply_compaction, caps_for_draft, missing_from_summary, plan_compaction
from ebbtide.agent.compaction.summary import (
    OUTPUT_REFS_PROMPT,
    REQUIRED_FACTS_HEADING,
    Draft,
    UnusableSummary,
    build_summary_prompt,
    draft_text,
    parse_edited_summary,
    parse_summary,
    truncate_lines,
    with_facts,
    without_tags,
    without_unanswered_calls,
)
from ebbtide.agent.eviction.settings import CompactionCaps, SummaryPreferences
from ebbtide.agent.messages import Assistant, Conversation, Image, StopReason, Summary, Text, ToolCall, User
from ebbtide.agent.prompt.build import Instructions, build_prompt
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.agent.view.visible import (
    LEDGER_HEADING,
    REQUEST_HEADING,
    RETAIN_HEADING,
    SUMMARY_HEADING,
    SUMMARY_PREAMBLE,
    summary_messages,
)
from tests.kit.conversations import conversations, filled, texts

PICTURE = Image("image/png", "aGk=")


def test_a_summary_is_shown_under_headings_with_the_request_as_it_was() -> None:
    asked = User((Text("go <summary> on"), PICTURE))
    (message,) = summary_messages(Summary("id 7", "it works", "Files read:\n- a.py", asked))
    assert message == User(
        (
            Text(SUMMARY_PREAMBLE),
            Text(f"{RETAIN_HEADING}\nid 7"),
            Text(f"{SUMMARY_HEADING}\nit works"),
            Text(f"{LEDGER_HEADING}\nFiles read:\n- a.py"),
            Text(REQUEST_HEADING),
            Text("go <summary> on"),
            PICTURE,
        )
    )
    assert summary_messages(Summary()) == ()


def test_the_summary_joins_the_user_message_behind_it() -> None:
    prompt = build_prompt(Conversation((User((Text("go on"),)),), Summary(summary="it works")), Instructions("base"))
    assert prompt.messages == (User((Text(SUMMARY_PREAMBLE), Text(f"{SUMMARY_HEADING}\nit works"), Text("go on"))),)


def test_the_instruction_names_both_tags_the_focus_and_what_the_user_wants() -> None:
    wishes = SummaryPreferences(summary_directives=("name the tests",), retain_directives=("all ids",))
    text = build_summary_prompt(wishes, "the parser")
    assert all(tag in text for tag in ("<retain>", "</retain>", "<summary>", "</summary>"))
    assert "\n- name the tests\n</summary>" in text
    assert "\n- all ids\n</retain>" in text
    assert text.endswith("Pay most attention to this: the parser")
    assert build_summary_prompt(wishes, "the parser", output_lines=("- [r1] Ran: a", "- [r2] Ran: b")) == (
        f"{text}\n\n{OUTPUT_REFS_PROMPT}\n- [r1] Ran: a\n- [r2] Ran: b"
    )
    assert "\n" not in SUMMARY_PREAMBLE
    assert "`recall` returns" in SUMMARY_PREAMBLE
    own = build_summary_prompt(SummaryPreferences(summary_prompt="Only the summary.", retain_prompt="Only the ids."))
    assert "<retain>\nOnly the ids.\n</retain>\n<summary>\nOnly the summary.\n</summary>" in own


@given(filled, texts)
def test_a_draft_is_read_from_its_elements(summary: str, retain: str) -> None:
    assume(without_tags(summary) == summary and without_tags(retain) == retain)
    reading = parse_summary(f"Sure.\n<retain>{retain}</retain>\n<summary>\n{summary}\n</summary> Bye.", (), "end")
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
    assert parse_summary(text, calls, stop) == UnusableSummary(why)


def test_a_summary_in_another_language_with_the_tags_is_one() -> None:
    reading = parse_summary("<retain>無</retain><summary>我们修复了解析器。</summary>", (), "end")
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
    reading = parse_summary(text, (), "end")
    assert isinstance(reading, Draft)
    assert (reading.retain, reading.summary.removeprefix("id 7").split()) == ("id 7", ["a", "b", "c"])


def test_tags_inside_a_summary_are_taken_out() -> None:
    reading = parse_summary("<summary>it is in <retain> now</summary>", (), "end")
    assert reading == Draft("", "it is in  now")


@given(st.lists(st.sampled_from(["<", ">", "/", "retain", "summary", "x"]), max_size=20).map("".join))
def test_no_tag_is_left_however_they_are_nested(text: str) -> None:
    cleaned = without_tags(text)
    assert not any(tag in cleaned for tag in ("<retain>", "</retain>", "<summary>", "</summary>"))
    assert without_tags(cleaned) == cleaned


@given(conversations())
def test_a_model_is_asked_about_no_open_call(conversation: Conversation) -> None:
    assert without_unanswered_calls(conversation.messages) == conversation.messages
    silent, saying = Assistant((CALL,)), Assistant((Text("I look"), CALL), "m/a")
    assert without_unanswered_calls((*conversation.messages, silent)) == conversation.messages
    assert without_unanswered_calls((*conversation.messages, saying)) == (
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
    lines = cut.splitlines()[3:-1]
    assert facts[: len(lines)] == lines
    assert estimate_text("\n".join(lines)) <= 200
    assert cut.endswith(f"- and {100 - len(lines)} more, which `recall` finds")
    assert with_facts("All is well.", [], 200) == "All is well."


summary_texts = st.text(st.characters(exclude_characters="\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=60).map(
    lambda text: without_tags(text).strip()
)
drafts = st.builds(Draft, summary_texts, summary_texts.map(lambda text: text or "x"))
SMALL = CompactionCaps(tail=200, ledger=400, retain=20, summary=30)


@given(drafts)
def test_what_nobody_edits_stays_as_it_is(draft: Draft) -> None:
    assert parse_edited_summary(draft_text(draft)) == draft


def test_without_its_headings_all_of_it_is_the_account_of_the_work() -> None:
    assert parse_edited_summary("just this\n") == Draft("", "just this")
    assert parse_edited_summary(f"{RETAIN_HEADING}\nr12\n{SUMMARY_HEADING}\ndone") == Draft("r12", "done")
    assert parse_edited_summary(f"r12\n  {SUMMARY_HEADING}  \ndone\n{RETAIN_HEADING}\nmore") == Draft(
        "r12", "done\nmore"
    )
    assert parse_edited_summary(f" \n{RETAIN_HEADING}\n\n{SUMMARY_HEADING}\n") is None


def test_tags_of_replies_never_come_into_the_view() -> None:
    assert parse_edited_summary("a<summary>b</summary>") == Draft("", "ab")


@given(conversations(), drafts)
def test_with_what_is_missing_nothing_is_missing(conversation: Conversation, draft: Draft) -> None:
    plan = plan_compaction(conversation, SMALL.tail)
    if plan is None:
        return
    missing = missing_from_summary(plan, draft, caps_for_draft(SMALL, draft))
    mended = Draft(draft.retain, with_facts(draft.summary, missing))
    caps = caps_for_draft(SMALL, mended)
    assert missing_from_summary(plan, mended, caps) == ()
    summary = apply_compaction(plan, mended, caps).summary
    assert (summary.retain, summary.summary) == (mended.retain, mended.summary)
    assert (REQUIRED_FACTS_HEADING in summary.summary) == bool(missing)


@given(drafts)
def test_nothing_that_a_person_wrote_is_cut(draft: Draft) -> None:
    caps = caps_for_draft(SMALL, draft)
    assert estimate_text(draft.retain) <= caps.retain
    assert estimate_text(draft.summary) <= caps.summary
