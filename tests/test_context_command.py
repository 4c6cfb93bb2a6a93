"""`ebb context` as a user runs it, on sessions that a scripted model has left."""

import json
from pathlib import Path

from tests.running import ebb


def asked(home: Path, project: Path) -> str:
    """A session of two requests; its id."""
    usage = {"input": 10, "cache_read": 20, "cache_write": 30, "output": 40}
    call = {"name": "todo", "arguments": {"items": []}}
    script = home / "script.json"
    script.write_text(json.dumps({"reply": [{"calls": [call], "usage": usage}, {"text": "Yes.", "usage": usage}]}))
    run = ebb("-p", "hi", "-m", f"scripted/{script}", "-C", str(project), "--output-format", "json", home=home)
    return str(run.result["session"])


def test_the_budget_the_epochs_and_the_requests_of_a_stored_session(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    session = asked(tmp_path, tmp_path / "project")
    shown = ebb("context", session[:6], "-C", str(tmp_path / "project"), home=tmp_path)
    assert shown.code == 0
    lines = [line.split() for line in shown.out.splitlines()]
    assert lines[0][:2] == ["Context", session]
    assert [line[0] for line in lines if "estimated" in line][:3] == ["system", "AGENT.md", "tools"]
    assert ["1", "2", "20", "40", "60", "80", "$0.00"] in lines
    assert ["2", "33%", "10", "20", "30", "40", "$0.00"] in lines

    printed = ebb("context", "--json", "-C", str(tmp_path / "project"), home=tmp_path).result
    assert (printed["session"], len(printed["epochs"][0]["requests"])) == (session, 2)
    assert printed["used"] == sum(component["tokens"] for component in printed["components"])


def test_a_session_that_is_over_is_shown_in_the_window_that_it_had(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"context_window": 50_000, "max_output_tokens": 4_000, "reply": [{"text": "hi"}] * 2}))
    ask = ("-p", "hi", "-m", f"scripted/{script}", "-C", str(tmp_path))
    window = []
    for flags in ((), ("--context-window", "30000")):
        assert ebb(*ask, *flags, home=tmp_path).code == 0
        shown = ebb("context", "--json", "-C", str(tmp_path), home=tmp_path).result
        window.append((shown["window"]["tokens"], shown["window"]["source"], shown["reserves"][0]["tokens"]))
    assert window == [(50_000, "script", 4_000), (30_000, "command line", 4_000)]


def test_without_a_session_it_says_so(tmp_path: Path) -> None:
    shown = ebb("context", "-C", str(tmp_path), home=tmp_path)
    assert (shown.code, shown.out) == (2, "")
    assert "there is no earlier session" in shown.err


def test_a_small_window_shows_the_tools_that_it_is_offered_before_anything_was_counted(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"reply": [{"text": "hi"}]}))
    sizes = []
    for flags in (("--context-window", "4096"), ("--context-window", "200000")):
        run = ebb("-p", "hi", "-m", f"scripted/{script}", "-C", str(tmp_path), *flags, home=tmp_path)
        assert run.code == 0
        told = ebb("context", "--json", "-C", str(tmp_path), *flags, home=tmp_path).result
        sizes.append({one["name"]: one["tokens"] for one in told["components"]})
    small, large = sizes
    assert small["tools"] < large["tools"] / 3
    assert small["system"] < large["system"] / 1.5


def test_what_was_counted_before_the_instructions_changed_is_estimated_and_they_come_on_top(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    usage = {"input": 6_000, "output": 10}
    script.write_text(json.dumps({"reply": [{"text": "word " * 400, "usage": usage}]}))
    run = ("-p", "words " * 900, "-m", f"scripted/{script}", "-C", str(tmp_path))
    assert ebb(*run, home=tmp_path).code == 0
    told = []
    for rules in ("", "always test first " * 500):
        if rules:
            (tmp_path / "AGENT.md").write_text(rules)
        shown = ebb("context", "--json", "-C", str(tmp_path), home=tmp_path).result
        told.append((shown["used"], {one["name"]: (one["tokens"], one["source"]) for one in shown["components"]}))
    (before, then), (after, now) = told
    assert (then["history"][1], now["history"][1]) == ("counted", "estimated")
    assert now["instructions"][0] > 2_000
    assert now["history"][0] > 0.8 * then["history"][0]
    assert after > before + 2_000
