"""The overview of a context as lines of text."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from ebbtide.agent.messages import Recalls, Usage
from ebbtide.agent.records.usage import RequestUsage, Rewrite
from ebbtide.agent.window.overview import DeferredTools, Epoch, Overview
from ebbtide.tui.text.spans import Line
from ebbtide.tui.view.context import (
    MAX_LISTED_REQUESTS,
    budget_lines,
    cache_text,
    epoch_lines,
    overview_lines,
    recall_lines,
    request_lines,
    rewrite_text,
    share_bar,
)
from tests.kit.fake_sessions import overview
from tests.kit.plain_lines import plain


def texts(lines: Iterable[Line]) -> list[str]:
    return [plain(line) for line in lines]


def test_each_component_has_its_tokens_share_source_and_bar() -> None:
    lines = texts(budget_lines(overview("s"), 80))
    assert lines[1] == "  instructions     1.1k    0.7%  estimated  ▎"
    assert lines[3] == "  ↳ forge           640    0.4%  3 of 12 tools"
    assert lines[6] == "  history         61.3k   34.9%  counted    ██████████▌"
    assert lines[10:] == [
        "  window        200,000  registry",
        "  − output       16,384  reserve",
        "  − buffer        8,192  reserve",
        "  = usable      175,424",
    ]


def test_tools_that_are_held_back_are_counted_apart() -> None:
    lines = texts(budget_lines(replace(overview("s"), deferred=DeferredTools(60, 6923)), 80))
    assert lines[9] == "  deferred         6.9k          60 tools, found by tool_search"
    assert lines[:9] + lines[10:] == texts(budget_lines(overview("s"), 80))


def test_the_lifetime_of_the_cache_has_what_it_saved() -> None:
    def requests(pause: float) -> tuple[RequestUsage, ...]:
        usages = (Usage(0, 0, 50_000, 100), Usage(0, 50_000, 1_000, 100))
        return tuple(RequestUsage("step", "m", one, None, 1000.0 + pause * at) for at, one in enumerate(usages))

    def lines(pause: float) -> list[str]:
        session = replace(overview("a"), cache_lifetime="1h", epochs=(Epoch(requests(pause)),))
        return texts(budget_lines(session, 100))[-1:]

    def heading(pause: float) -> str:
        return cache_text(replace(overview("a"), cache_lifetime="1h", epochs=(Epoch(requests(pause)),)))

    assert [heading(600), heading(60), cache_text(overview("a"))] == [
        "  cache 1h (saves 15%)",
        "  cache 1h (adds 56%)",
        "",
    ]
    assert lines(600) == ["  cache              1h  its lifetime has saved 15% of the input cost so far"]
    assert lines(60) == ["  cache              1h  its lifetime has added 56% of the input cost so far"]


@pytest.mark.parametrize(
    ("share", "drawn"), [(0, ""), (0.0001, "▏"), (0.5, "████"), (0.56, "████▌"), (1, "█" * 8), (9, "█" * 8)]
)
def test_a_bar_is_exact_to_an_eighth_and_never_longer_than_its_place(share: float, drawn: str) -> None:
    assert share_bar(share, 8) == drawn


def test_a_rewrite_tells_why_how_and_for_how_much() -> None:
    assert rewrite_text(Rewrite("asked", ("mask", "summary"), 112_000, 21_000, 0.0421, 0.0, 3)) == (
        "older outputs as one line each, summary (requested): 112k → 21.0k tokens, $0.0421"
    )
    assert rewrite_text(Rewrite("", ("summary",), 950, 200, None, 0.0, 3)) == "summary: 950 → 200 tokens, unknown"
    assert rewrite_text(Rewrite("overflow", ("mask_all", "ledger"), 950, 200, 0.0, 0.0, 3)) == (
        "all outputs as one line each, key facts kept, no model summary (too large for the provider): "
        "950 → 200 tokens, no model used"
    )
    assert rewrite_text(Rewrite("system (AGENT.md)", (), 0, 0, 0.0, 0.0, 3)) == "changed: system (AGENT.md)"


def test_epochs_add_their_requests_up() -> None:
    asked = RequestUsage("step", "m", Usage(1, 2, 3, 4), None, 0.0)
    lines = texts(epoch_lines((Epoch((asked, asked), Rewrite("", ("mask",), 2, 1, 0.0, 0.0, 2)), Epoch(()))))
    assert lines[1].split() == ["1", "2", "2", "4", "6", "8", "unknown"]
    assert lines[2].strip().startswith("↳ older outputs as one line each")
    assert lines[3].split() == ["2", "0", "0", "0", "0", "0", "$0.00"]


def test_the_newest_requests_come_first_and_the_list_ends() -> None:
    asked = [RequestUsage("step", "m", Usage(10, 90, 0, n), 0.5, 0.0) for n in range(MAX_LISTED_REQUESTS + 2)]
    lines = texts(request_lines(asked))
    assert lines[1].split() == ["202", "90%", "10", "90", "0", "201", "$0.50"]
    assert lines[-1].strip().startswith("2 earlier requests")
    assert texts(request_lines([]))[1] == "  none yet"


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_title_with_escapes_and_an_overfull_window_are_shown(width: int) -> None:
    full: Overview = replace(overview("s"), title="a\x1b[31mb", effective=1_000)
    text = "\n".join(texts(overview_lines(full, width)))
    assert "\x1b" not in text
    assert "free                0    0.0%" in text


def test_what_was_brought_back_is_told_in_a_line_with_what_stays_longer_for_it() -> None:
    back = {"r1": "file", "r4": "view", "r9": "program"}
    few, many = {"file": 1, "view": 1, "program": 2}, {"file": 90, "view": 90, "program": 2}
    line = "Recalled so far: 3 outputs (2 files, 1 command)"
    lines = [texts(recall_lines(Recalls(left, back))) for left in (few, many, {**many, "program": 90})]
    assert lines == [
        [f"{line}; these outputs are kept longer now"],
        [f"{line}; command outputs are kept longer now"],
        [line],
    ]
    assert recall_lines(Recalls(many)) == []
    whole = replace(overview("s"), recalls=Recalls(few, back))
    assert lines[0][0] in texts(overview_lines(whole, 120))
