from functools import reduce

import pytest

from ebbtide.agent.events.session import Event, ReplyFinished, TextDelta, ToolStarted, TurnFinished, TurnStarted
from ebbtide.agent.events.view import FilesChanged
from ebbtide.agent.messages import Usage
from ebbtide.tui.view.blocks import AnswerText, SessionView, TurnTotal
from ebbtide.tui.view.plain_lines import block_lines
from ebbtide.tui.view.reduce import apply_event
from ebbtide.tui.view.turn_total import TurnTimer, total_sentence, total_text, with_total

CHANGED = FilesChanged(("a.py", "b.py"), added=10, removed=3)


def turn(*costs: float | None, changed: FilesChanged | None = None) -> SessionView:
    view = apply_event(SessionView(), TurnStarted("s", "m", ""))
    for cost in costs:
        view = apply_event(view, ReplyFinished("m", "end", Usage(input=1_000, output=200), cost))
    if changed is not None:
        view = apply_event(view, changed)
    return with_total(apply_event(view, TurnFinished("answered", "")), 12.7)


def test_a_turn_ends_with_what_it_took_and_changed() -> None:
    assert turn(0.01, 0.02, changed=CHANGED).turn_blocks == (TurnTotal(12, 0.03, 2_400, CHANGED),)
    assert turn().turn_blocks == ()


@pytest.mark.parametrize(
    ("events", "lines"),
    [
        ((), ["Interrupted after 7s. What should I do instead?"]),
        ((TextDelta("half"),), ["Interrupted after 7s, partial answer kept. What should I do instead?"]),
        (
            (TextDelta("I look."), ToolStarted("1", "bash", {}), CHANGED, ReplyFinished("m", "end", Usage(1_000), 0.5)),
            [
                "Interrupted after 7s. What should I do instead?",
                "Turn: $0.50, 2 files changed (10 lines added, 3 removed), `/undo` to revert.",
            ],
        ),
    ],
)
def test_an_interrupted_turn_says_when_and_what_is_kept(events: tuple[Event, ...], lines: list[str]) -> None:
    view = reduce(apply_event, (TurnStarted("s", "m", "go"), *events, TurnFinished("interrupted", "")), SessionView())
    total = with_total(view, 7.9).turn_blocks[-1]
    assert isinstance(total, TurnTotal)
    assert list(block_lines(total)) == lines
    assert total_text(total).split("\n")[0] == lines[0]


def test_the_line_says_the_cost_or_else_the_tokens_and_how_files_come_back() -> None:
    for view, text, words in (
        (turn(0.5), "12s  $0.50", "12s, $0.50"),
        (turn(None), "12s  1.2k tokens", "12s, 1.2k tokens"),
        (turn(0.0), "12s  1.2k tokens", "12s, 1.2k tokens"),
        (
            turn(0.5, changed=CHANGED),
            "12s  $0.50  2 files +10 −3, `/undo` to revert",
            "12s, $0.50, 2 files changed (10 lines added, 3 removed), `/undo` to revert",
        ),
    ):
        total = view.turn_blocks[-1]
        assert isinstance(total, TurnTotal)
        assert (total_text(total), total_sentence(total)) == (text, words)


def test_what_cannot_be_undone_is_said_also_while_the_turn_goes_on() -> None:
    view = apply_event(SessionView(turn_blocks=(AnswerText("Done."),)), FilesChanged((), "the folder is too large"))
    total = view.turn_blocks[-1]
    assert isinstance(total, TurnTotal)
    assert total_text(total) == "`/undo` does not cover changes made by commands: the folder is too large"


def test_the_time_in_which_the_user_is_asked_does_not_count() -> None:
    time = TurnTimer(100.0)
    assert [
        time.elapsed_at(110.0, is_waiting=True),
        time.elapsed_at(150.0, is_waiting=False),
        time.elapsed_at(152.0, is_waiting=False),
    ] == [
        10.0,
        10.0,
        12.0,
    ]
