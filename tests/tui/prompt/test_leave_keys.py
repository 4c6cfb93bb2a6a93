"""What Ctrl-C and Ctrl-D mean, press after press."""

from ebbtide.tui.prompt.double_press import DOUBLE_PRESS_S, ExitKeys


def test_ctrl_c_takes_away_the_nearest_thing_and_leaves_only_where_there_is_none() -> None:
    now = [100.0]
    keys = ExitKeys(lambda: now[0])
    pressed = [
        keys.press_ctrl_c(has_text=written, is_running=works)
        for written, works in ((True, True), (False, True), (False, False), (True, False), (False, False))
    ]
    assert pressed == ["clear", "stop", "warn", "clear", "warn"]
    assert keys.press_ctrl_c(has_text=False, is_running=False) == "leave"


def test_a_turn_that_is_slow_to_end_keeps_nobody_and_another_is_not_left_by_what_was_said_before_it() -> None:
    now = [100.0]
    keys = ExitKeys(lambda: now[0])
    assert [keys.press_ctrl_c(has_text=False, is_running=True) for _ in range(3)] == ["stop", "warn", "leave"]
    keys = ExitKeys(lambda: now[0])
    assert [keys.press_ctrl_c(has_text=False, is_running=works) for works in (False, True)] == ["warn", "stop"]
    now[0] += DOUBLE_PRESS_S
    assert [keys.press_ctrl_c(has_text=False, is_running=True), keys.press_ctrl_d(is_running=True)] == ["stop", "warn"]
    assert [keys.press_ctrl_d(is_running=True), keys.press_ctrl_d(is_running=False)] == ["leave", "leave"]
