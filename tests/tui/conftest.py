"""For tests of the terminal."""

import pytest

from tests.tui.idle import find_idle_soon

find_idle_soon()


@pytest.fixture
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds of what runs stay the same however long it takes until a picture is taken."""
    monkeypatch.setattr("tui.presenter.monotonic", lambda: 0.0)
