"""`ebb usage` as a user runs it: sums by day, month, model and project, as JSON and as a plot."""

import json
import time
from pathlib import Path

import pytest

from tests.kit.commands import ebb
from tests.kit.user import DAY, User

NOON = time.mktime((2026, 3, 10, 12, 0, 0, 0, 0, -1))
SUM = {"input": 10, "cache_read": 60, "cache_write": 20, "output": 10}


@pytest.fixture
def user(tmp_path: Path) -> User:
    """Somebody with two sessions in this project and one elsewhere; one of the first has an agent's."""
    user = User(tmp_path)
    sessions = [str(user.ask({"text": "done"}).result["session"]) for _ in range(3)]
    user.query("delete from usage")
    user.query("update sessions set project = '/other' where id = ?", sessions[2])
    user.query(
        "insert into sessions (id, project, title, model, mode, created, updated, owner, agent) "
        "values ('aaaaaaaaaaaa', ?, 'look', 'm/a', 'ask', 1, 1, ?, 'explore')", str(user.project), sessions[0],
    )  # fmt: skip
    rows = (
        (sessions[0], "m/a", 0.5, NOON),
        ("aaaaaaaaaaaa", "m/b", 0.25, NOON + 60),
        (sessions[1], "m/b", None, NOON + DAY),
        (sessions[2], "m/a", 1.0, NOON + 3 * DAY),
    )
    for session, model, cost, at in rows:
        user.query(
            "insert into usage (session, model, purpose, input, cache_read, cache_write, output, cost, created) "
            "values (?, ?, 'step', 10, 60, 20, 10, ?, ?)", session, model, cost, at,
        )  # fmt: skip
    return user


def sums(user: User, *arguments: str) -> dict[str, tuple[int, int, float | None, int]]:
    report = user.ebb("usage", "--json", *arguments).result
    return {
        line[report["by"]]: (line["requests"], line["sessions"], line["cost"], line["unpriced"])
        for line in report["lines"]
    }


def test_requests_are_summed_by_what_is_asked_for(user: User) -> None:
    assert sums(user, "--since", "2026-01-01") == {
        "2026-03-10": (2, 1, 0.75, 0), "2026-03-11": (1, 1, None, 1), "2026-03-13": (1, 1, 1.0, 0),
    }  # fmt: skip
    assert sums(user, "--by", "month") == {"2026-03": (4, 3, 1.75, 1)}
    assert list(sums(user, "--by", "model").items()) == [("m/a", (2, 2, 1.5, 0)), ("m/b", (2, 2, 0.25, 1))]
    assert sums(user, "--by", "project") == {"/other": (1, 1, 1.0, 0), str(user.project): (3, 2, 0.75, 1)}
    assert sums(user, "--by", "project", "--project", "/other") == {"/other": (1, 1, 1.0, 0)}
    assert sums(user, "--by", "model", "--since", "2026-03-13") == {"m/a": (1, 1, 1.0, 0)}
    total = user.ebb("usage", "--json", "--by", "model").result["total"]
    assert total == {
        "requests": 4, "sessions": 3, "input": 40, "cache_read": 240, "cache_write": 80, "output": 40, "cost": 1.75,
        "unpriced": 1,
    }  # fmt: skip


def test_a_plot_has_every_day_and_says_what_is_not_known(user: User) -> None:
    env = {"COLUMNS": "90", "LANG": "C.UTF-8"}
    lines = user.ebb("usage", "--since", "2026-01-01", env=env).out.splitlines()
    assert lines[0] == "Usage by day, all projects, since 2026-01-01"
    assert [line.split()[0] for line in lines[2:6]] == ["2026-03-10", "2026-03-11", "2026-03-12", "2026-03-13"]
    assert (lines[2].count("█"), lines[5].count("█"), lines[4].strip()) == (
        lines[5].count("█") * 3 // 4, lines[5].count("█"), "2026-03-12",
    )  # fmt: skip
    assert ("unknown" in lines[3], "$0.75" in lines[2], "67%" in lines[2]) == (True, True, True)
    text = " ".join(" ".join(lines[6:]).split())
    assert text.startswith("bars: cost $1.75 for 4 requests in 3 sessions: 240 tokens read from the cache")
    assert text.endswith("price unknown for 1 request; costs marked `+` are higher")


@pytest.mark.parametrize("locale", [{"LANG": "C"}, {"LC_ALL": "C"}, {"LANG": "POSIX"}, {"PYTHONIOENCODING": "ascii"}])
def test_where_there_are_only_letters_it_is_drawn_of_them(user: User, locale: dict[str, str]) -> None:
    for columns in ("100", "40", "12"):
        run = user.ebb("usage", "--by", "model", env={**locale, "COLUMNS": columns})
        assert (run.code, run.err, run.out.isascii()) == (0, "", True)
    assert "####" in user.ebb("usage", "--by", "model", env={**locale, "COLUMNS": "100"}).out


def test_without_prices_the_bars_are_tokens(user: User) -> None:
    user.query("update usage set cost = null")
    printed = user.ebb("usage", "--by", "model", env={"LANG": "C.UTF-8"}).out
    assert "bars: tokens" in printed
    assert "price unknown for 4 requests" in printed
    assert "+" not in printed


def test_nothing_and_nonsense(user: User, tmp_path: Path) -> None:
    user.query("update usage set model = 'm/\x1b[31mred'")
    assert "\x1b" not in user.ebb("usage", "--by", "model").out
    nobody = ebb("usage", home=tmp_path / "new")
    assert (nobody.code, nobody.out.splitlines()[1:]) == (0, ["no model requests"])
    assert json.loads(ebb("usage", "--json", home=tmp_path / "new").out)["lines"] == []
    for arguments, message in ((("--by", "hour"), "invalid choice"), (("--since", "x"), "`x` is not a time")):
        run = user.ebb("usage", *arguments)
        assert (run.code, message in run.err, run.out) == (2, True, "")
