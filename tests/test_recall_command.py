"""What earlier sessions said, found again by a model and by a user, as processes of their own."""

import json
from pathlib import Path
from typing import Any

import pexpect
import pytest

from tests.kit.commands import command, environment
from tests.kit.files import write_file
from tests.kit.session import bash, call, calls
from tests.kit.user import User
from tests.kit.word_vectors import model_in


@pytest.fixture
def one(tmp_path: Path) -> User:
    return User(tmp_path, "one")


@pytest.fixture
def two(tmp_path: Path) -> User:
    return User(tmp_path, "two")


def session_of(user: User, *wanted: dict[str, Any], flags: tuple[str, ...] = ()) -> str:
    """The id of a session in which a model makes these calls, one a step."""
    run = user.ask(*map(calls, wanted), {"text": "done"}, flags=flags)
    assert (run.code, run.result["result"]) == (0, "done")
    return str(run.result["session"])


def test_a_model_finds_what_an_earlier_session_read_and_reads_it_again(one: User) -> None:
    (one.project / "limits.py").write_text("RETRIES = 5  # agreed upon\n")
    first = session_of(one, call("read", path="limits.py"))
    ref = f"ebb://one/{first[:8]}/r1"
    second = session_of(one, call("recall", query="retries agreed"), call("recall", ref_id=ref))
    found, read = one.outputs(second)
    assert found.split("\n")[0].startswith(f"[recall:{ref}] output of read, ")
    assert found.split("\n")[0].endswith(f", session {first[:8]}: Viewed limits.py – 1 line")
    lines, _, about = read.rpartition("\n")
    assert lines == "1\tRETRIES = 5  # agreed upon\n(lines 1-1 of 1-1)"
    assert about.startswith(f"[recall:{ref} – output of read; paths: limits.py; truncated: no; tokens: ")


def test_what_other_projects_said_is_not_found_unless_the_user_lets_it_be(one: User, two: User) -> None:
    (one.project / "a.txt").write_text("a secret word\n")
    first = session_of(one, call("read", path="a.txt"))
    ref = f"ebb://one/{first[:8]}/r1"
    asked = (call("recall", query="secret", kind="output"), call("recall", ref_id=ref), call("read_result", ref_id=ref))
    denied = two.outputs(session_of(two, *asked))
    assert denied[0] == "nothing was found: try other words, or fewer filters"
    assert all("`recall.scope` is `project`" in text for text in denied[1:])
    allowed = two.outputs(session_of(two, *asked, flags=("--config", "recall.scope=all")))
    assert all("a secret word" in text for text in allowed)


def test_a_project_may_only_narrow_what_may_be_recalled(one: User, two: User) -> None:
    folder = two.project / ".ebb"
    write_file(folder / "config.toml", '[recall]\nscope = "all"\n')
    settings = json.loads(two.ebb("config", "--json").out)
    assert settings["recall.scope"]["value"] == "project"
    (folder / "config.toml").write_text('[recall]\nscope = "session"\n')
    settings = json.loads(two.ebb("config", "--json").out)
    assert settings["recall.scope"]["value"] == "session"


def test_a_user_searches_sessions_and_sees_the_whole_of_what_was_found(one: User, two: User) -> None:
    lines = "".join(f"line {number}\n" for number in range(3000))
    (one.project / "long.txt").write_text(lines)
    session = session_of(one, call("read", path="long.txt"))
    session_of(two)
    found = one.ebb("sessions", "search", "line", "1700", "--json").lines
    assert [(one["ref"], one["kind"], one["tool"]) for one in found] == [
        (f"ebb://one/{session[:8]}/r1", "output", "read")
    ]
    assert "line 1700" in found[0]["excerpt"]
    printed = one.ebb("sessions", "show", session, "r1")
    assert printed.out.splitlines()[1699] == "1700\tline 1699"
    text = one.ebb("sessions", "search", "1700")
    assert text.out.split("\n")[0].startswith(f"ebb://one/{session[:8]}/r1  ")
    assert text.out.split("\n")[0].endswith("  output of read  Viewed long.txt – lines 1-2000 of 3000")
    assert two.ebb("sessions", "search", "1700").out.startswith("nothing found; `--all`")
    assert two.ebb("sessions", "search", "1700", "--all").out == text.out


def test_a_long_output_tells_how_long_it_is(one: User) -> None:
    replies = calls(bash("seq 3000; echo")), {"text": "done"}
    run = one.ask(*replies, flags=("--permission-mode", "auto"), form="stream-json")
    assert [line["lines"] for line in run.lines if line["type"] == "tool_finished"] == [3001]


@pytest.mark.parametrize(
    ("line", "printed"),
    [
        ("echo short", "short\nexit code 0\n"),
        ("seq 2000", "".join(f"{number}\n" for number in range(1, 2001)) + "exit code 0\n"),
        (r"printf 'half a character \344'", "half a character \ufffd\nexit code 0\n"),
    ],
)
def test_on_a_terminal_what_is_shown_ends_with_its_line(one: User, line: str, printed: str) -> None:
    session = session_of(one, bash(line), flags=("--permission-mode", "auto"))
    arguments = " ".join(command("sessions", "show", session, "r1", "-C", str(one.project)))
    screen_text = pexpect.run(arguments, env=environment(one.home), timeout=60, encoding="utf-8")
    assert screen_text.replace("\r\n", "\n") == printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("search",), "the following arguments are required: query"),
        (("search", "  "), "give words to search for"),
        (("search", "x", "--limit", "0"), "a limit above 0"),
    ],
)
def test_a_search_for_nothing_says_what_to_write(one: User, arguments: tuple[str, ...], message: str) -> None:
    run = one.ebb("sessions", *arguments)
    assert run.code == 2
    assert message in run.err


def test_a_reference_to_nothing_is_one_sentence(one: User) -> None:
    session = session_of(one)
    for ref in ("r7", "nonsense"):
        run = one.ebb("sessions", "show", session, ref)
        assert (run.code, run.out, run.err.count("\n")) == (1, "", 1)
        assert f"`{ref}`" in run.err


def test_a_deleted_session_is_not_found_any_more(one: User) -> None:
    session = session_of(one)
    assert session[:8] in one.ebb("sessions", "search", "done").out
    one.ebb("sessions", "delete", session)
    assert one.ebb("sessions", "search", "done").out.startswith("nothing found")


def test_what_means_the_same_is_found_where_a_model_is_set(one: User) -> None:
    (one.project / "a.txt").write_text("the automobile stands there\n")
    session_of(one, call("read", path="a.txt"))
    model = model_in(one.home / "model")
    setting = f'recall.embedding_model="{model}"'
    search = ("sessions", "search", "vehicle", "--config", setting)
    (line,) = [line for line in one.ebb(*search).out.splitlines() if "r1" in line]
    assert line.endswith("Viewed a.txt – 1 line  (similar meaning)")
    assert [line["by_meaning"] for line in one.ebb(*search, "--json").lines] == [True]
    second = session_of(one, call("recall", query="vehicle"), flags=("--config", setting))
    (found,) = one.outputs(second)
    assert "Viewed a.txt – 1 line (similar meaning)\n  1\tthe automobile stands there" in found


def test_a_model_that_is_missing_is_told_of_once(one: User) -> None:
    setting = f'recall.embedding_model="{one.home / "nowhere"}"'
    notice = f"`recall.embedding_model`: folder `{one.home / 'nowhere'}` not found (models are not downloaded)"
    search = one.ebb("sessions", "search", "word", "--config", setting)
    assert search.err == f"ebb: {notice}; searches use words only\n"
    run = one.ask(calls(call("recall", query="word")), {"text": "done"}, flags=("--config", setting))
    assert run.err.count(notice) == 1
    assert notice not in one.outputs(str(run.result["session"]))[0]


@pytest.mark.parametrize("written", ["r1:L7-8", "R1:L7-8", "`r1:L7-8`", "[recall:r1:L7-8]"])
def test_lines_of_an_output_are_shown_by_the_numbers_that_they_carry(one: User, written: str) -> None:
    (one.project / "rows.txt").write_text("".join(f"row {number}\n" for number in range(1, 10)))
    session = session_of(one, call("read", path="rows.txt", offset=5))
    run = one.ebb("sessions", "show", session, written)
    assert (run.code, run.out) == (0, "7\trow 7\n8\trow 8\n")


def test_lines_that_are_not_there_are_no_empty_output(one: User) -> None:
    (one.project / "rows.txt").write_text("row\n")
    session = session_of(one, call("read", path="rows.txt"))
    run = one.ebb("sessions", "show", session, "r1:L2")
    assert (run.code, run.out, run.err) == (1, "", "ebb: `r1` has only line 1: 2 is beyond its end\n")
    run = one.ebb("sessions", "show", session, "r1:B5-9")
    assert (run.code, run.out, run.err) == (1, "", "ebb: `r1` has 5 bytes: offset=5 is beyond its end\n")


def test_bytes_that_are_no_text_are_shown_as_they_are_and_how_they_ended_beside_them(one: User) -> None:
    session = session_of(one, bash("head -c 9000 /dev/zero; exit 3"), flags=("--allow", "bash"))
    run = one.ebb("sessions", "show", session, "r1")
    assert (run.code, run.out, run.err) == (0, "\0" * 9000, "ebb: exit code 3\n")
