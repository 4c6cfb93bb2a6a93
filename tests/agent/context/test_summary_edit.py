"""Summaries as people edit them."""

from hypothesis import given
from hypothesis import strategies as st

from agent.context.compaction import compacted, plan_compaction, uncovered
from agent.context.estimate import estimate_text
from agent.context.settings import Caps
from agent.context.summary import FORGOTTEN, RETAIN, SUMMARY, Draft, with_facts, without_tags
from agent.context.summary_edit import as_text, read_edited, spacious
from agent.messages import Conversation
from tests.agent.histories import conversations

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
    missing = uncovered(plan, draft, spacious(SMALL, draft))
    mended = Draft(draft.retain, with_facts(draft.summary, missing))
    caps = spacious(SMALL, mended)
    assert uncovered(plan, mended, caps) == ()
    shown = compacted(plan, mended, caps).summary
    assert (shown.retain, shown.summary) == (mended.retain, mended.summary)
    assert (FORGOTTEN in shown.summary) == bool(missing)


@given(drafts)
def test_nothing_that_a_person_wrote_is_cut(draft: Draft) -> None:
    caps = spacious(SMALL, draft)
    assert estimate_text(draft.retain) <= caps.retain
    assert estimate_text(draft.summary) <= caps.summary
