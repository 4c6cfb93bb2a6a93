"""The status line: what it says, and what gives way where it is narrow."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from ebbtide.agent.config.options import STATUS_PARTS, StatusPart, status_parts
from ebbtide.agent.events.permissions import PermissionAnswered, PermissionAsked
from ebbtide.agent.events.session import (
    CallDelta,
    ContextMeasured,
    Event,
    ReplyFinished,
    RetryScheduled,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from ebbtide.agent.input.instructions import branch_or_commit
from ebbtide.agent.messages import Usage
from ebbtide.tui.view.blocks import SessionView
from ebbtide.tui.view.reduce import apply_event
from ebbtide.tui.view.status import (
    BAR_CELLS,
    ElapsedSeconds,
    ElapsedTimer,
    ReplySpeed,
    StatusLineState,
    context_bar,
    status_line,
)
from tests.kit.files import write_file
from tests.kit.plain_lines import plain

PARTS = (("system", 2_000), ("instructions", 1_000), ("tools", 5_000), ("history", 80_000), ("pending", 12_000))
VIEW = SessionView(
    model="anthropic/claude",
    mode="ask",
    used_tokens=100_000,
    available_tokens=200_000,
    cost=1.4,
    component_tokens=PARTS,
    turn_cost=0.25,
    prompt_tokens=200_000,
    cached_tokens=180_000,
)
WHOLE = StatusLineState(VIEW, branch="main", tokens_per_second=80, visible_parts=STATUS_PARTS)


@pytest.mark.parametrize(
    ("width", "numbers"),
    [
        (120, "80 tok/s  cache 90%  main  turn $0.25  anthropic/claude  $1.40  ━━━━━───── 100k of 200k (50%)"),
        (95, "cache 90%  main  turn $0.25  anthropic/claude  $1.40  ━━━━━───── 100k of 200k (50%)"),
        (65, "anthropic/claude  $1.40  ━━━━━───── 100k of 200k (50%)"),
        (40, "━━━━━───── 100k of 200k (50%)"),
        (10, ""),
    ],
)
def test_the_least_important_gives_way_first(width: int, numbers: str) -> None:
    line = plain(status_line(WHOLE, width))
    assert line == f"ask mode{numbers:>{width - 8}}"


@given(st.lists(st.sampled_from(STATUS_PARTS), unique=True), st.integers(0, 200), st.booleans(), st.text(max_size=30))
def test_it_never_takes_more_than_there_is_beside_what_goes_on(
    wanted: list[StatusPart], width: int, busy: bool, branch: str
) -> None:
    state = StatusLineState(
        SessionView(is_busy=busy, activity="x", mode="auto", cost=2.0, used_tokens=3),
        branch=branch,
        visible_parts=tuple(wanted),
    )
    alone = cell_len(plain(status_line(StatusLineState(state.view, visible_parts=()), 0)))
    assert cell_len(plain(status_line(state, width))) <= max(width, alone)


@given(st.lists(st.tuples(st.sampled_from(["system", "tools", "memories", "history", "new"]), st.integers(0, 10**7))))
def test_the_bar_has_all_its_cells(parts: list[tuple[str, int]]) -> None:
    for room in (0, 1, 200_000):
        assert len(plain(context_bar(parts, room))) == BAR_CELLS


def test_the_bar_tells_the_parts_apart() -> None:
    assert context_bar((("system", 40), ("tools", 20), ("summary", 10), ("history", 20), ("pending", 10)), 100) == (
        ("━━━━", "accent"),
        ("━━", "warn"),
        ("━", "good"),
        ("━━━", "text"),
    )


def test_the_bar_shrinks_with_what_is_used_before_it_is_measured_anew() -> None:
    assert plain(context_bar(PARTS, 200_000, 3_000)) == "━─────────"
    assert plain(context_bar(PARTS, 200_000, 180_000)) == "━━━━━━━━━─"
    assert plain(context_bar(PARTS, 200_000, 0)) == "──────────"


def test_where_nothing_holds_commands_it_says_so() -> None:
    for mode, state, last in (
        ("ask", "", ("ask mode", "dim")),
        ("ask", "bubblewrap", ("ask mode", "dim")),
        ("auto", "bubblewrap", ("sandboxed", "dim")),
        ("ask", "landlock", ("Landlock only", "warn")),
        ("ask", "none", ("no sandbox", "warn")),
        ("ask", "off", ("sandbox off", "dim")),
        ("auto", "off", ("sandbox off", "warn")),
    ):
        line = status_line(StatusLineState(SessionView(mode=mode, cost=1.0), sandbox=state), 30)
        assert [span for span in line if span[0].strip()][-1] == last
        assert line[0] == (f"{mode} mode", "dim")
    assert plain(
        status_line(StatusLineState(SessionView(mode="plan", is_busy=True), visible_parts=("mode",)), 60)
    ).endswith("  plan mode")


def test_an_estimate_has_its_sign() -> None:
    for view, text in (
        (SessionView(used_tokens=12_300, available_tokens=200_000, is_estimate=True), "~12.3k of 200k (6%)"),
        (SessionView(used_tokens=12_300, is_estimate=True), "~12.3k tokens"),
        (SessionView(is_estimate=True), ""),
    ):
        assert plain(status_line(StatusLineState(view, visible_parts=("context",)), 40)).strip() == text


def test_a_turn_counts_its_own_cost_and_cache() -> None:
    view = SessionView(cost=1.0, turn_cost=0.5, prompt_tokens=9, cached_tokens=9)
    view = apply_event(view, TurnStarted("s", "m", "go"))
    view = apply_event(view, ContextMeasured(90, 1_000, 800, (("history", 90),)))
    view = apply_event(view, ReplyFinished("m", "calls", Usage(10, 30, 0, 5), 0.25))
    view = apply_event(view, ReplyFinished("m", "end", Usage(20, 40, 0, 5), 0.25, "summary"))
    assert (view.cost, view.turn_cost, view.prompt_tokens, view.cached_tokens, view.component_tokens) == (
        1.5,
        0.5,
        40,
        30,
        (("history", 90),),
    )


def test_what_keeps_the_cache_alive_is_shown_with_its_price_until_the_next_turn() -> None:
    view = SessionView(cost=1.0, turn_cost=0.25)
    for _ in range(2):
        view = apply_event(
            view, ReplyFinished("m", "max_tokens", Usage(cache_read=90_000, output=1), 0.25, "keep-alive")
        )
    assert (view.cost, view.turn_cost, view.used_tokens, view.prompt_tokens) == (1.5, 0.25, 0, 0)
    text = plain(status_line(StatusLineState(view, visible_parts=("turn", "cost")), 60)).strip()
    assert text == "turn $0.25, cache renewed 2×, $0.50  $1.50"
    view = apply_event(view, TurnStarted("s", "m", "go"))
    assert plain(status_line(StatusLineState(view, visible_parts=("turn", "cost")), 60)).endswith("  $1.50")


def test_what_streams_in_is_counted_with_the_calls_that_are_written() -> None:
    view, counts = SessionView(), []
    for event in (
        TextDelta("four"),
        CallDelta("read", 10),
        CallDelta("read", 30),
        CallDelta("edit", 5),
        CallDelta("edit", 25),
    ):
        view = apply_event(view, event)
        counts.append(view.streamed_chars)
    assert counts == [4, 14, 34, 39, 59]
    assert apply_event(view, ReplyFinished("m", "end", Usage(), None)).streamed_chars == 0


def test_the_pace_is_that_of_one_reply() -> None:
    pace = ReplySpeed()
    assert [
        pace.tokens_per_second(streamed, now) for streamed, now in ((40, 1.0), (240, 1.5), (440, 2.0), (840, 3.0))
    ] == [
        0,
        0,
        100,
        100,
    ]
    assert [pace.tokens_per_second(streamed, now) for streamed, now in ((0, 4.0), (4, 9.0), (84, 10.0))] == [0, 0, 20]


def test_a_branch_is_read_also_in_a_linked_work_tree_and_from_a_folder_inside(tmp_path: Path) -> None:
    git = tmp_path / "work" / ".git"
    (git / "worktrees" / "two").mkdir(parents=True)
    inside = tmp_path / "work" / "deep"
    inside.mkdir()
    (git / "HEAD").write_text("ref: refs/heads/feature/x\n")
    linked = tmp_path / "two"
    write_file(linked / ".git", f"gitdir: {git / 'worktrees' / 'two'}\n")
    (git / "worktrees" / "two" / "HEAD").write_text("0123456789abcdef0123456789abcdef01234567\n")
    assert [branch_or_commit(folder) for folder in (inside, linked, tmp_path)] == ["feature/x", "01234567", ""]
    (git / "HEAD").unlink()
    os.mkfifo(git / "HEAD")
    assert branch_or_commit(inside) == ""


def test_only_parts_that_there_are_may_be_set() -> None:
    assert status_parts(["cost", "context"]) == ("cost", "context")
    for wrong in ("cost", ["cost", "weather"], ["cost", "cost"]):
        with pytest.raises(ValueError, match=r'a list of distinct values from "speed", "cache"'):
            status_parts(wrong)


def test_only_what_is_done_takes_time_and_a_question_takes_none() -> None:
    happened: list[tuple[float, Event | None, ElapsedSeconds]] = [
        (100.0, TurnStarted("s", "m", "go"), ElapsedSeconds(0, 0)),
        (103.0, CallDelta("bash", 10), ElapsedSeconds(0, 3)),
        (105.0, CallDelta("bash", 900), ElapsedSeconds(2, 5)),
        (106.0, ToolStarted("1", "bash", {}), ElapsedSeconds(0, 6)),
        (106.0, PermissionAsked("q", "1", "bash", {}, ""), ElapsedSeconds(0, 6)),
        (144.0, PermissionAnswered("q", "allow"), ElapsedSeconds(0, 6)),
        (152.0, None, ElapsedSeconds(8, 14)),
        (153.0, ToolFinished("1", "bash", "done", ""), ElapsedSeconds(0, 15)),
        (153.0, ToolStarted("2", "bash", {}), ElapsedSeconds(0, 15)),
        (155.5, None, ElapsedSeconds(2, 17)),
        (156.0, TurnFinished("answered", ""), ElapsedSeconds(0, 0)),
        (400.0, TurnStarted("s", "m", "go"), ElapsedSeconds(0, 0)),
        (401.0, None, ElapsedSeconds(1, 1)),
    ]
    view, elapsed, counted = SessionView(), ElapsedTimer(), []
    for now, event, _ in happened:
        view = apply_event(view, event) if event is not None else view
        counted.append(elapsed.elapsed_at(view, now))
    assert counted == [took for _, _, took in happened]


def test_a_call_that_follows_another_at_once_begins_anew() -> None:
    view, elapsed = apply_event(SessionView(is_busy=True), ToolStarted("1", "bash", {})), ElapsedTimer()
    elapsed.elapsed_at(view, 1.0)
    assert elapsed.elapsed_at(view, 9.0) == ElapsedSeconds(8, 8)
    for event in (ToolFinished("1", "bash", "done", ""), ToolStarted("2", "bash", {})):
        view = apply_event(view, event)
    assert elapsed.elapsed_at(view, 9.0) == ElapsedSeconds(0, 8)
    assert plain(status_line(StatusLineState(view, ElapsedSeconds(3, 71)), 80)).startswith(
        "● running bash  3s of 1m 11s  Esc interrupt"
    )


@pytest.mark.parametrize(
    ("left", "seconds", "text"),
    [
        (None, 0, "● Overloaded (529) · retrying in 3s, attempt 5 · Esc to stop"),
        (2_340.0, 1, "● Overloaded (529) · retrying in 2s, attempt 5, 39 min left · Esc to stop"),
        (90.0, 2, "● Overloaded (529) · retrying in 1s, attempt 5, 1m 30s left · Esc to stop"),
        (0.0, 3, "● Overloaded (529) · trying again, attempt 5, 0s left · Esc to stop"),
    ],
)
def test_a_retry_counts_down_in_one_line(left: float | None, seconds: int, text: str) -> None:
    retry = RetryScheduled(5, 0, 2.6, "the m server failed (529): busy", left, "Overloaded (529)")
    view = apply_event(SessionView(is_busy=True), retry)
    assert plain(status_line(StatusLineState(view, ElapsedSeconds(seconds, 40)), 100)).rstrip() == text


def test_a_retry_names_how_many_attempts_there_are() -> None:
    view = apply_event(SessionView(is_busy=True), RetryScheduled(2, 5, 0.0, "the model sent an empty answer"))
    assert plain(status_line(StatusLineState(view), 100)).rstrip() == (
        "● the model sent an empty answer · trying again, attempt 2 of 5 · Esc to stop"
    )
