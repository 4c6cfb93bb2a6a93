"""For tests of the terminal."""

from collections.abc import Callable

import pytest

from tests.kit.app_pilot import find_idle_soon
from tests.kit.pictures import Picture

find_idle_soon()


@pytest.fixture
def no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seconds of what runs stay the same however long it takes until a picture is taken."""
    monkeypatch.setattr("ebbtide.tui.presenter.monotonic", lambda: 0.0)


@pytest.fixture
def picture(
    snap_compare: Callable[..., bool], request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Picture:
    monkeypatch.setattr("ebbtide.tui.view.greeting.TIPS", ("Ctrl-O shows more or less detail",))  # one every day
    monkeypatch.setattr("ebbtide.tui.session.controller.monotonic", lambda: 0.0)  # a turn takes no time on it
    return Picture(snap_compare, getattr(request, "param", (80, 24)))
