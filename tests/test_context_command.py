"""`ebb context` as a user runs it, on sessions that a scripted model has left."""

from tests.kit.session import call, calls
from tests.kit.user import User


def test_the_budget_the_epochs_and_the_requests_of_a_stored_session(user: User) -> None:
    usage = {"input": 10, "cache_read": 20, "cache_write": 30, "output": 40}
    asked = user.ask({**calls(call("todo", items=[])), "usage": usage}, {"text": "Yes.", "usage": usage})
    session = asked.result["session"]
    report = user.ebb("context", session[:6])
    assert report.code == 0
    lines = [line.split() for line in report.out.splitlines()]
    assert lines[0][:2] == ["Context", session]
    assert [line[0] for line in lines if "estimated" in line][:3] == ["system", "instructions", "tools"]
    assert ["1", "2", "20", "40", "60", "80", "$0.00"] in lines
    assert ["2", "33%", "10", "20", "30", "40", "$0.00"] in lines

    printed = user.ebb("context", "--json").result
    assert (printed["session"], len(printed["epochs"][0]["requests"])) == (session, 2)
    assert printed["used"] == sum(component["tokens"] for component in printed["components"])
    assert ["\u25cf", "balanced", "200", "tokens", "0"] in [line[:5] for line in lines]
    style = printed["style_costs"]
    assert (style["active"], style["recorded"], style["replayed_count"]) == ("balanced", "balanced", 4)
    assert [(cost["style"], cost["tokens"], cost["regrets"]) for cost in style["styles"]] == [
        ("frugal", 200, 0),
        ("balanced", 200, 0),
        ("careful", 200, 0),
    ]


def test_a_session_that_is_over_is_shown_in_the_window_that_it_had(user: User) -> None:
    window = []
    for flags in ((), ("--context-window", "30000")):
        assert user.ask({"text": "hi"}, flags=flags, window=50_000, max_output_tokens=4_000).code == 0
        report = user.ebb("context", "--json").result
        window.append((report["window"]["tokens"], report["window"]["source"], report["reserves"][0]["tokens"]))
    assert window == [(50_000, "script", 4_000), (30_000, "command line", 4_000)]


def test_without_a_session_it_says_so(user: User) -> None:
    report = user.ebb("context")
    assert (report.code, report.out) == (2, "")
    assert "no earlier session" in report.err


def test_a_small_window_shows_the_tools_that_it_is_offered_before_anything_was_counted(user: User) -> None:
    sizes = []
    for flags in (("--context-window", "4096"), ("--context-window", "200000")):
        assert user.ask({"text": "hi"}, flags=flags).code == 0
        report = user.ebb("context", "--json", *flags).result
        sizes.append({one["name"]: one["tokens"] for one in report["components"]})
    small, large = sizes
    assert small["tools"] < large["tools"] / 3
    assert small["system"] < large["system"] / 1.5


def test_what_was_counted_before_the_instructions_changed_is_estimated_and_they_come_on_top(user: User) -> None:
    model = user.script({"text": "word " * 400, "usage": {"input": 6_000, "output": 10}})
    assert user.ebb("-p", "words " * 900, "-m", model).code == 0
    reports = []
    for rules in ("", "always test first " * 500):
        if rules:
            (user.project / "AGENT.md").write_text(rules)
        report = user.ebb("context", "--json").result
        reports.append((report["used"], {one["name"]: (one["tokens"], one["source"]) for one in report["components"]}))
    (before, then), (after, now) = reports
    assert (then["history"][1], now["history"][1]) == ("counted", "estimated")
    assert now["instructions"][0] > 2_000
    assert now["history"][0] > 0.8 * then["history"][0]
    assert after > before + 2_000
