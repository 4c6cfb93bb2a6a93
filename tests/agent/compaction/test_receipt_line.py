"""What is said of a rewrite where nobody looks at a terminal."""

from typing import get_args

import pytest

from ebbtide.agent.compaction.receipt import describe_compaction
from ebbtide.agent.compaction.room import DEFER_TOOLS
from ebbtide.agent.compaction.strategies import Strategy
from ebbtide.agent.events.view import Cause, ContextCompacted
from ebbtide.agent.view.items import PINS_STRATEGY


def test_each_strategy_is_told_in_words_of_its_own() -> None:
    names = (DEFER_TOOLS, PINS_STRATEGY, *get_args(Strategy))
    announcements = {describe_compaction(ContextCompacted(9000, 4000, 9, 4, (name,), "full")) for name in names}
    assert len(announcements) == len(names)


@pytest.mark.parametrize("cause", get_args(Cause))
def test_a_rewrite_is_one_line_whatever_the_cause(cause: Cause) -> None:
    event = ContextCompacted(9000, 4000, 9, 4, ("mask", "shorten_text", "mask"), cause)
    line = describe_compaction(event)
    assert "\n" not in line
    assert line.endswith(
        ": about 9,000 tokens became 4,000; old outputs were reduced to one line each, your long text was shortened in "
        "the middle. Nothing is lost"
    )
