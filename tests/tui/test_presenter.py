"""When what streams in is drawn, and what ends with the screen."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tui.presenter import FLUSH_INTERVAL_S, next_drawing_time
from ebbtide.tui.widgets.status import StatusBar
from tests.kit.app_pilot import terminal
from tests.kit.fake_sessions import FakeSession


@given(st.integers(0, 10**6), st.integers(0, 60))
def test_half_of_the_time_is_left_however_long_a_drawing_takes(began: int, took: int) -> None:
    ended = began + took
    at = next_drawing_time(began, ended)
    assert at - ended >= ended - began
    assert at >= began + FLUSH_INTERVAL_S


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
