from time import monotonic

from tui.screens.guarded import GuardedScreen


def test_who_writes_answers_nothing() -> None:
    screen: GuardedScreen[None] = GuardedScreen(60.0)
    assert screen.ignores_key(monotonic())
    later = monotonic() + 200
    assert not screen.ignores_key(later)
    screen.meant_nothing()
    assert screen.ignores_key(monotonic())
    assert not screen.ignores_key(later)
