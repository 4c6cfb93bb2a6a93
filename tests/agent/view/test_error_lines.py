"""Which lines tell of errors, and what is shown of them in the previews of real tools' logs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.agent.view.error_line_collector import ErrorLineCollector
from ebbtide.agent.view.error_lines import (
    CAUSE_WEIGHT,
    MENTION_WEIGHT,
    VERDICT_WEIGHT,
    WORDS_WEIGHT,
    error_weight,
    is_routine_line,
    line_shape,
    strongest_error_line,
)
from tests.kit.tool_logs import ToolLog, tool_logs

LOGS = {log.tool: log for log in tool_logs()}


@pytest.mark.parametrize(
    ("line", "weight"),
    [
        ("src/a.c:12:5: error: expected ';' before 'x'", CAUSE_WEIGHT),
        ("src/a.c:12:5: error: unused variable 'x' [-Werror=unused-variable]", CAUSE_WEIGHT),
        ("error[E0308]: mismatched types", CAUSE_WEIGHT),
        ("src/api.ts(3,12): error TS2322: Type 'string' is not assignable to type 'number'.", CAUSE_WEIGHT),
        ("Program.cs(5,13): error CS0103: The name 'x' does not exist", CAUSE_WEIGHT),
        ("  12:5  error  'total' is not defined  no-undef", CAUSE_WEIGHT),
        ("E       assert 1.0 == 1.01", CAUSE_WEIGHT),
        ("ModuleNotFoundError: No module named 'x'", CAUSE_WEIGHT),
        ("java.lang.IllegalStateException: closed", CAUSE_WEIGHT),
        ("Caused by: java.net.UnknownHostException: repo", CAUSE_WEIGHT),
        ("panic: runtime error: index out of range", CAUSE_WEIGHT),
        ("thread 'main' panicked at src/main.rs:4:5:", CAUSE_WEIGHT),
        ('called `Result::unwrap()` on an `Err` value: "cannot load a.yml"', CAUSE_WEIGHT),
        ("index out of bounds: the len is 0 but the index is 3", CAUSE_WEIGHT),
        ("attempt to subtract with overflow", CAUSE_WEIGHT),
        ("attempt to connect, number 3", 0),
        ("main.c:(.text+0xa): undefined reference to `f'", CAUSE_WEIGHT),
        ("make: *** No rule to make target 'a.o', needed by 'all'.  Stop.", CAUSE_WEIGHT),
        ("    shop_test.go:49: Round(2.675) = 2.67, want 2.68", CAUSE_WEIGHT),
        ("fatal: not a git repository", CAUSE_WEIGHT),
        ("bash: line 3: frobnicate: command not found", CAUSE_WEIGHT),
        ("E: Unable to locate package libx-dev", CAUSE_WEIGHT),
        ("npm error code ERESOLVE", CAUSE_WEIGHT),
        ("#8 1.822 npm error code EUSAGE", CAUSE_WEIGHT),
        ("2024-05-01T12:00:00.123Z Error: connect ECONNREFUSED 127.0.0.1:5432", CAUSE_WEIGHT),
        ("│ Error: Reference to undeclared resource", CAUSE_WEIGHT),
        ("** (Ecto.NoResultsError) expected at least one", CAUSE_WEIGHT),
        ("*** stack smashing detected ***: terminated", CAUSE_WEIGHT),
        ("WARNING: DATA RACE", CAUSE_WEIGHT),
        (" ERR_PNPM_NO_MATCHING_VERSION  No matching version found for x@9", CAUSE_WEIGHT),
        ("lua: a.lua:3: attempt to index a nil value (global 'x')", CAUSE_WEIGHT),
        ("Illegal division by zero at a.pl line 3.", CAUSE_WEIGHT),
        ("signal: killed", VERDICT_WEIGHT),
        ("timeout: the monitored command dumped core", VERDICT_WEIGHT),
        ("Execution halted", VERDICT_WEIGHT),
        ("--- FAIL: TestRounding (0.00s)", VERDICT_WEIGHT),
        ("FAILED tests/test_a.py::test_b - assert 1 == 2", VERDICT_WEIGHT),
        ("not ok 7 - rounds half up", VERDICT_WEIGHT),
        ("  ✕ adds the tax (2 ms)", VERDICT_WEIGHT),
        ("  ● cart › adds the tax", VERDICT_WEIGHT),
        ("[ERROR] Failed to execute goal", VERDICT_WEIGHT),
        ("CONFLICT (content): Merge conflict in a.py", VERDICT_WEIGHT),
        ("3 passed, 1 failed", VERDICT_WEIGHT),
        ("the connection was refused", WORDS_WEIGHT),
        ("make: *** [Makefile:3: app] Error 1", MENTION_WEIGHT),
        ("INFO retrying, the peer refused", MENTION_WEIGHT),
        ("Traceback (most recent call last):", MENTION_WEIGHT),
        ("test_error_17 PASSED  [ 40%]", 0),
        ("tests/test_failures.py::test_error PASSED", 0),
        ("ok 12 - dies with error: cannot open", 0),
        ("  ✓ shows error: cannot open (3 ms)", 0),
        ("test parse::fails_on_error ... ok", 0),
        ("=== RUN   TestError/fails", 0),
        ("12/99 Test #12: error_case ......   Passed    0.01 sec", 0),
        ("gcc -Wall -Werror -Wno-error=unused -c src/errors/fail_1.c", 0),
        ("pytest --fail-fast --error-for-skips", 0),
        ("Tests run: 7, Failures: 0, Errors: 0", 0),
        ("found 0 errors, no failures", 0),
        ("[ 12%] Building C object errors/fail.c.o", 0),
        ("Compiling error-chain v0.12.4", 0),
        ("Get:4 http://mirror.example/debian bookworm/main liberror-perl", 0),
        ("a.c:3:4: warning: unused variable 'error'", 0),
        ("npm warn deprecated error-ex@1.3.1", 0),
        ("all is well", 0),
        ("", 0),
    ],
)
def test_a_line_tells_so_much_of_an_error(line: str, weight: int) -> None:
    assert error_weight(line) == weight


def test_lines_that_say_the_same_have_one_shape() -> None:
    first = line_shape("src/a.c:12:5: error: unknown type name 'u8'")
    assert first == line_shape("lib/other.c:7:31: error: unknown type name 'bool_t'")
    assert first != line_shape("src/a.c:12:5: error: expected ';'")


def test_of_lines_that_tell_as_much_the_first_counts() -> None:
    assert strongest_error_line(["all is well", "FAILED a", "ValueError: x", "KeyError: y"]) == "ValueError: x"
    assert strongest_error_line(["all is well"]) == ""


def test_figures_are_no_routine_and_what_passes_is() -> None:
    lines = ["tests/test_a.py::test_error PASSED [ 3%]", "epoch 3 loss 0.31", "[3/9] Compiling errors.c", "error: x"]
    assert [is_routine_line(line) for line in lines] == [True, False, True, False]


@pytest.mark.parametrize("name", sorted(LOGS))
def test_what_decides_stands_in_the_preview_of_a_tool_s_log(name: str) -> None:
    assert LOGS[name].decisive in LOGS[name].shown()


def test_the_previews_of_twenty_logs_are_short() -> None:
    assert len(LOGS) >= 20
    assert all(len(log.text) > 6000 for log in LOGS.values())
    sizes = sorted(estimate_text(log.shown()) for log in LOGS.values())
    assert sum(sizes) / len(sizes) < 700  # this counts a third more than o200k does


def test_lines_alike_are_told_once_with_their_number_and_what_stands_around_the_newest() -> None:
    matches = ErrorLineCollector()
    text = "".join(f"check {n}\nsrc/a{n}.c:{n}: error: no type 'x{n}'\nnote {n}\n" for n in range(1, 9))
    matches.add_lines(text.encode(), 1)
    assert matches.excerpt_between(0, 100) == (
        "21- note 7\n22- check 8\n23: src/a8.c:8: error: no type 'x8' (and 7 like it, from line 2)\n24- note 8"
    )
    assert matches.excerpt_between(0, 23) == ""


def test_a_cause_in_a_flood_of_other_lines_with_words_of_failure_is_found() -> None:
    flood = "".join(f"{chr(97 + n % 26)}{n:x}q the peer refused\n" for n in range(30_000))
    matches = ErrorLineCollector()
    matches.add_lines(f"{flood}panic: out of tokens\n{flood}".encode(), 1)
    assert "30001: panic: out of tokens" in matches.excerpt_between(10, 60_000)


@given(st.text("aF:(['\"-.0 1errofail\\t✕", max_size=900))
def test_any_line_is_judged(line: str) -> None:
    assert error_weight(line) in range(CAUSE_WEIGHT + 1)
    assert isinstance(is_routine_line(line), bool)
    assert isinstance(line_shape(line), str)


def test_a_log_is_what_its_fixture_says() -> None:
    log: ToolLog = LOGS["make"]
    assert log.text.splitlines()[0].startswith("make: *** No rule")
    assert log.text.count("\n") == 502


@given(st.lists(st.sampled_from(["a quiet line", "error: this failed", "", "x" * 300]), min_size=1, max_size=60))
def test_long_stretches_without_errors_are_passed_over_without_a_difference(lines: list[str]) -> None:
    quiet = [f"quiet {number}" for number in range(80)]
    text = "\n".join([*quiet, *lines, *quiet, "error: at last", *quiet, ""]).encode()
    at_once, by_line = ErrorLineCollector(), ErrorLineCollector()
    at_once.add_lines(text, 1)
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        by_line.add_lines(line, number)
    # In several parts, so that most of what is given at once holds no error.
    in_parts, first = ErrorLineCollector(), 1
    for at in range(0, len(text.splitlines()), 40):
        part = text.splitlines(keepends=True)[at : at + 40]
        in_parts.add_lines(b"".join(part), first)
        first += len(part)
    excerpts = [each.excerpt_between(0, 10_000) for each in (at_once, by_line, in_parts)]
    assert excerpts == [excerpts[0]] * 3
    assert "error: at last" in excerpts[0]
