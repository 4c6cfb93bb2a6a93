"""When what streams in is drawn, and what ends with the screen."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from textual.events import Key

from ebbtide.tui.drawing_schedule import FLUSH_INTERVAL_S, next_drawing_time
from ebbtide.tui.view.blocks import Block
from ebbtide.tui.widgets.status import StatusBar
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeSession


@given(st.integers(0, 10**6), st.integers(0, 60))
def test_half_of_the_time_is_left_however_long_a_drawing_takes(began: int, took: int) -> None:
    ended = began + took
    at = next_drawing_time(began, ended)
    assert at - ended >= ended - began
    assert at >= began + FLUSH_INTERVAL_S


async def test_typed_keys_are_in_the_prompt_before_streamed_text_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    async with terminal(FakeSession()) as t:
        show, presenter = t.transcript.show, t.app.context.presenter
        prompt_texts: list[str] = []

        def watched_show(*blocks: Sequence[Block]) -> None:
            prompt_texts.append(t.prompt.text)
            show(*blocks)

        monkeypatch.setattr(t.transcript, "show", watched_show)
        await t.until(lambda: not presenter.schedule.is_due)
        prompt_texts.clear()
        for letter in "typed":
            t.prompt.post_message(Key(letter, letter))
        presenter.schedule.draw_after_keys(float("inf"))
        await t.until(lambda: prompt_texts)
        assert prompt_texts[0] == "typed"


async def test_keys_that_never_end_do_not_stop_drawing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with terminal(FakeSession()) as t:
        presenter = t.app.context.presenter
        await t.until(lambda: not presenter.schedule.is_due)
        monkeypatch.setattr(type(t.prompt), "message_queue_size", 1)
        presenter.schedule.request()
        await t.until(lambda: not presenter.schedule.is_due)


async def test_a_later_hint_stands_for_all_of_its_time() -> None:
    async with terminal(FakeSession()) as t:
        showing = t.app.context.presenter
        showing.show_hint("the first")
        timer = showing._hint_timer
        showing.show_hint("the second")
        assert timer is not None
        await t.until(lambda: timer._task is None or timer._task.done())
        assert t.app.main_screen.query_one(StatusBar)._state.hint == "the second"


async def test_a_size_is_taken_though_textuals_timer_for_it_never_goes_off(monkeypatch: pytest.MonkeyPatch) -> None:
    async with terminal(FakeSession()) as t:
        set_timer = t.app.set_timer
        monkeypatch.setattr(t.app, "set_timer", lambda *_, **__: set_timer(3600, lambda: None))
        await t.pilot.resize_terminal(100, 30)
        await t.until(lambda: t.app.screen.size == (100, 30))
