"""Receipts of compactions: the line, what opens behind it, and what the transcript shows while one runs."""

from functools import reduce

from ebbtide.agent.events.session import Event, TurnFailed, TurnStarted
from ebbtide.agent.events.view import (
    CompactionFailed,
    CompactionStarted,
    ContextCompacted,
    NothingCompacted,
    Price,
    ReceiptItem,
    RewriteUndone,
)
from ebbtide.tui.view.blocks import Failure, Notice, SessionView, UserText
from ebbtide.tui.view.receipts import (
    MAX_LISTED_ITEMS,
    RECEIPT_UNDO_HINT,
    Compaction,
    RunningCompaction,
    UndoneCompaction,
    receipt_details,
    receipt_hints,
    receipt_title,
    undo_price_text,
)
from ebbtide.tui.view.reduce import apply_event

ITEMS = (
    ReceiptItem("step: bash", "kept", 300, "among the newest steps"),
    ReceiptItem("you: fix it (24 messages)", "summarised", 60_000, "older"),
    ReceiptItem("you: and that (3 messages)", "summarised", 22_000, "older"),
    ReceiptItem("Ran: make – exit 0 [r7]", "masked", 900, "an older output"),
)
DONE = ContextCompacted(121_000, 38_000, 120, 8, ("mask_all", "summary"), "full", ITEMS, model="a/small", cost=0.031)
FAILED = CompactionFailed("a/small", "it is empty")
REFUSED = "summary by a/small rejected: it is empty"


def after(*events: Event) -> SessionView:
    return reduce(apply_event, (TurnStarted("s", "m", "go"), *events), SessionView())


def test_the_line_says_how_much_how_and_for_what_price() -> None:
    (block,) = after(DONE).blocks[1:]
    assert isinstance(block, Compaction)
    assert receipt_title(block) == "compacted: 120 → 8 messages, −83.0k tokens · $0.0310"
    free = ContextCompacted(5_000, 900, 12, 3, ("mask",))
    (block,) = after(free).blocks[1:]
    assert isinstance(block, Compaction)
    assert receipt_title(block) == "compacted: 12 → 3 messages, −4.1k tokens"
    unknown = ContextCompacted(5_000, 900, 12, 12, ("summary",), model="a/new", cost=None)
    (block,) = after(unknown).blocks[1:]
    assert isinstance(block, Compaction)
    assert receipt_title(block) == "compacted: −4.1k tokens · price unknown"


def test_the_line_ends_in_what_can_be_done_as_far_as_there_is_room() -> None:
    hints = [receipt_hints("compacted: −4.1k tokens", width) for width in (80, 50, 40, 30)]
    assert hints == [" · Enter for details · /context undo", " · Enter for details", " · /context undo", ""]


def test_a_rewrite_by_price_says_what_it_had_cost_to_leave_it() -> None:
    lines = []
    for dollar in (None, 2e-6):
        price = Price(30_000, 9_000, 11_000, 11_400, dollar)
        (block,) = after(ContextCompacted(90_000, 60_000, 12, 12, ("mask",), "rent", price=price)).blocks[1:]
        assert isinstance(block, Compaction)
        lines.append(receipt_details(block)[2])
    assert lines == [
        (
            "head",
            "30,000 tokens removed: keeping them would have cost 11,400, removing them costs 11,000 (in fresh input)",
        ),
        ("head", "30,000 tokens removed: keeping them would have cost $0.0228, removing them costs $0.0220"),
    ]


def test_what_opens_says_why_by_whom_and_what_became_of_each_part() -> None:
    (block,) = after(CompactionStarted(121_000), FAILED, DONE).blocks[1:]
    assert isinstance(block, Compaction)
    assert receipt_details(block) == (
        ("head", "the window was full · 121,000 → 38,000 tokens"),
        ("head", "all outputs as one line each, summary"),
        ("head", "summary by a/small · $0.0310"),
        ("head", REFUSED),
        ("head", "summarised, 82,000 tokens: older"),
        ("item", "  60,000  you: fix it (24 messages)"),
        ("item", "  22,000  you: and that (3 messages)"),
        ("head", "one line each, 900 tokens: an older output"),
        ("item", "     900  Ran: make – exit 0 [r7]"),
        ("head", "kept, 300 tokens: among the newest steps"),
        ("item", "     300  step: bash"),
        ("head", RECEIPT_UNDO_HINT),
    )


def test_a_long_receipt_is_cut() -> None:
    block = Compaction(ContextCompacted(9, 1, 9, 1, (), receipt=ITEMS[:1] * (MAX_LISTED_ITEMS + 5)))
    assert receipt_details(block)[-2] == ("item", "       …  5 more")
    assert len(receipt_details(block)) == MAX_LISTED_ITEMS + 4


def test_an_undo_is_a_line_with_its_price() -> None:
    undone = RewriteUndone(38_000, 123_000, 101_200, 0.3794, 180_000)
    view = after(DONE, undone)
    assert (view.used_tokens, view.available_tokens) == (123_000, 180_000)
    block = view.blocks[-1]
    assert block == UndoneCompaction(undone)
    line = "undone: 38,000 → 123,000 tokens · the next request rewrites up to 101k cached tokens, $0.38"
    assert receipt_title(block) == line
    lines = [
        undo_price_text(RewriteUndone(38_000, 123_000, written, cost, is_cached=is_cached))
        for written, cost, is_cached in ((0, 0.0, True), (900, None, True), (85_000, 0.255, False))
    ]
    assert lines == [
        "no extra cost for the next request",
        "the next request rewrites up to 900 cached tokens, price unknown",
        "each request grows by 85.0k tokens, $0.26",
    ]


def test_while_one_runs_the_transcript_says_so() -> None:
    assert after(CompactionStarted(121_000)).blocks == (UserText("go"), RunningCompaction(121_000))
    running = after(CompactionStarted(121_000), FAILED).blocks[-1]
    assert running == RunningCompaction(121_000, (REFUSED,))
    assert receipt_title(running) == f"compacting 121,000 tokens … · {REFUSED}"


def test_one_that_leaves_no_receipt_leaves_only_what_went_wrong() -> None:
    assert after(CompactionStarted(9), FAILED, NothingCompacted()).blocks == (UserText("go"), Notice(REFUSED))
    assert after(CompactionStarted(9), NothingCompacted()).blocks == (UserText("go"),)
    ended = after(CompactionStarted(9), FAILED, TurnFailed("context", "too big", 7))
    assert ended.blocks == (UserText("go"), Notice(REFUSED), Failure("context", "too big"))


def test_a_failure_that_nobody_announced_is_told_at_once() -> None:
    assert after(FAILED).blocks == (UserText("go"), Notice(REFUSED))
