"""How often outputs are needed again, by kind, age and idle time, and the odds fitted to that."""

import json
import math
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.context.fit import (
    EXAMINED_AGES,
    PENALTIES,
    OutputHistory,
    ReuseRow,
    constant_odds,
    fit_odds,
    format_odds,
    format_projects,
    format_rates,
    log_likelihood,
    main,
    output_histories,
    reuse_rows,
)
from bench.context.recordings import RecordedCall, RecordedStep, Recording
from ebbtide.agent.tokens.estimate import estimate_text
from ebbtide.agent.view.recalls import REUSE_ODDS, ReuseOdds
from ebbtide.agent.view.stubs import MIN_MASKED_TOKENS
from ebbtide.tools.tool_traits import OutputContent

CONTENTS: tuple[OutputContent, ...] = get_args(OutputContent)
KNOWN = ReuseOdds(file=1.0, search=0.4, other=0.2, size_exponent=0.5, idle_exponent=0.7)


def step(text: str = "", *calls: RecordedCall, texts: tuple[str, ...] = ()) -> RecordedStep:
    return RecordedStep(texts, 0.0, text, 0, calls)


def read(id: str, path: str, output: str) -> RecordedCall:
    return RecordedCall(id, "read", "read", {"path": path}, output)


def recording(*steps: RecordedStep) -> Recording:
    return Recording("app-codex-00", "app", "Codex", steps)


def needed_ages(*steps: RecordedStep) -> list[list[int]]:
    return [past.needed_at for past in output_histories(recording(*steps))]


def test_an_output_is_needed_when_what_only_it_holds_is_used() -> None:
    ask = RecordedCall("3", "bash", "bash", {"command": "make"}, "gamma_three is fine")
    found = output_histories(
        recording(
            step("", read("1", "a", "12\talpha_one\n13\tbeta_two"), texts=("look at beta_two",)),
            step("beta_two was named by the user"),
            step("", ask),
            step("alpha_one"),
            step("alpha_one again, which was said before, and gamma_three"),
        )
    )
    assert found == [
        OutputHistory("file", estimate_text("12\talpha_one\n13\tbeta_two"), 4, [2], [1, 3, 4]),
        OutputHistory("program", estimate_text("gamma_three is fine"), 2, [1], [2]),
    ]


@pytest.mark.parametrize("part", ["the queue is drained before each restart", "48213", "const x = new Queue(items);"])
def test_an_output_is_needed_for_its_phrases_values_and_lines(part: str) -> None:
    output = f"12\tnothing\n13\t{part}\n14\tnothing"
    assert needed_ages(step("", read("1", "a", output)), step(), step(f"Note\n{part}\n")) == [[1]]
    assert needed_ages(step("", read("1", "a", output), texts=(part,)), step(part)) == [[]]
    assert needed_ages(step(part), step("", read("1", "a", output)), step(part)) == [[]]


def test_what_the_stub_of_any_output_lists_is_not_needed() -> None:
    text = f"{'word ' * 100}in alpha_one and beta_two"
    assert needed_ages(step("", read("1", "a", text)), step("", read("2", "b", "beta_two")), step("beta_two")) == [
        [],
        [],
    ]
    assert needed_ages(step("", read("1", "a", text[-30:])), step("alpha_one")) == [[0]]


@pytest.mark.parametrize("part", ["alpha_one", "the queue is drained before each restart"])
def test_the_newest_output_that_holds_it_is_the_one_that_is_needed(part: str) -> None:
    assert needed_ages(step("", read("1", "a", part)), step("", read("2", "b", part)), step(part)) == [[], [0]]


def test_an_output_is_idle_since_it_came_in_or_was_named() -> None:
    past = OutputHistory("file", 500, 50, named_at=[4, 9])
    assert [past.idle(age) for age in (3, 4, 8, 9, 20)] == [3, 0, 4, 0, 11]


def test_an_output_counts_at_each_age_before_the_end_of_its_session_if_it_may_be_masked() -> None:
    pasts = [
        OutputHistory("file", 500, 9, [6]),
        OutputHistory("search", 200, 4, [1], [2]),
        OutputHistory("file", MIN_MASKED_TOKENS, 9, [6]),
        OutputHistory("file", 500, 3, [2]),
    ]
    assert reuse_rows(pasts) == [
        ReuseRow("file", 500, 3, is_needed=True),
        ReuseRow("file", 500, 5, is_needed=True),
        ReuseRow("file", 500, 8, is_needed=False),
        ReuseRow("search", 200, 1, is_needed=False),
    ]


def outputs_as_likely_as(odds: ReuseOdds, chances: int = 10) -> list[OutputHistory]:
    """Outputs of all kinds and several sizes, which are needed for the last time as often as the odds say."""
    pasts = []
    for content, tokens, number in product(CONTENTS, (150, 900, 5_400), range(chances)):
        chance = (number + 0.5) / chances
        ages = [age for age in EXAMINED_AGES if odds.probability(content, tokens, age) > chance]
        pasts.append(OutputHistory(content, tokens, 201, ages[-1:]))
    return pasts


def test_the_odds_that_outputs_were_made_with_are_found() -> None:
    fitted = fit_odds(outputs_as_likely_as(KNOWN, 100))
    for name in ReuseOdds.__slots__:
        assert getattr(fitted, name) == pytest.approx(getattr(KNOWN, name), rel=0.05)


def test_the_same_outputs_give_the_same_odds_in_any_order() -> None:
    pasts = outputs_as_likely_as(KNOWN)
    assert fit_odds(pasts) == fit_odds(pasts)
    assert format_odds(fit_odds(pasts)) == format_odds(fit_odds(pasts[::-1]))


def penalised_likelihood(odds: ReuseOdds, pasts: list[OutputHistory]) -> float:
    rows = reuse_rows(pasts)
    other, file, search = map(math.log, (odds.other, odds.file, odds.search))
    coefficients = (other, file - other, search - other, odds.size_exponent, odds.idle_exponent)
    chances = (odds.probability(row.content, row.tokens, row.idle) for row in rows)
    fit = sum(math.log(chance if row.is_needed else 1 - chance) for row, chance in zip(rows, chances, strict=True))
    return fit - sum(penalty * value**2 / 2 for penalty, value in zip(PENALTIES, coefficients, strict=True))


HISTORIES = st.lists(
    st.builds(
        OutputHistory,
        st.sampled_from(CONTENTS),
        st.integers(MIN_MASKED_TOKENS + 1, 50_000),
        st.integers(0, 60),
        st.lists(st.integers(0, 60), max_size=1),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=30, deadline=None)
@given(HISTORIES, st.sampled_from(ReuseOdds.__slots__), st.sampled_from((0.9, 1.1)))
def test_no_odds_are_likelier_than_the_fitted_ones(pasts: list[OutputHistory], name: str, factor: float) -> None:
    fitted = fit_odds(pasts)
    changed = replace(fitted, **{name: getattr(fitted, name) * factor})
    assert penalised_likelihood(fitted, pasts) >= penalised_likelihood(changed, pasts) - 1e-6


@pytest.mark.parametrize("group", [("file", "view"), ("search", "report"), ("program", "change", "other"), CONTENTS])
@pytest.mark.parametrize("is_needed", [True, False])
def test_a_group_that_is_never_or_always_needed_has_finite_odds(
    group: tuple[OutputContent, ...], is_needed: bool
) -> None:
    pasts = outputs_as_likely_as(KNOWN)
    needed_at = [200] if is_needed else []
    extreme = [replace(past, needed_at=needed_at) if past.content in group else past for past in pasts]
    before, fitted = fit_odds(pasts).level_of(group[0]), fit_odds(extreme).level_of(group[0])
    assert before < fitted < 1e9 if is_needed else before > fitted > 1e-9


def test_constant_odds_are_the_rates_of_the_groups() -> None:
    pasts = outputs_as_likely_as(KNOWN)
    for content, others in (("view", ["file", "view"]), ("report", ["search", "report"]), ("program", CONTENTS[-3:])):
        needed = [row.is_needed for row in reuse_rows(pasts) if row.content in others]
        rate = constant_odds(pasts).probability(content, 900, 30)  # type: ignore[arg-type]  # a kind
        assert rate == pytest.approx(sum(needed) / len(needed), abs=0.001)
    rows = reuse_rows(pasts)
    assert log_likelihood(constant_odds(pasts), rows) < log_likelihood(fit_odds(pasts), rows) < 0
    assert log_likelihood(KNOWN, []) == 0


def test_one_output_that_the_odds_exclude_does_not_outweigh_the_others() -> None:
    never = ReuseOdds(file=0, search=0, other=0, size_exponent=0, idle_exponent=0)
    assert log_likelihood(never, [ReuseRow("file", 500, 3, is_needed=True)]) == pytest.approx(1000 * math.log(0.001))


def test_the_printed_code_is_the_odds() -> None:
    name, code = format_odds(REUSE_ODDS).split(" = ")
    assert (name, eval(code, {"ReuseOdds": ReuseOdds})) == ("REUSE_ODDS", REUSE_ODDS)
    assert format_odds(replace(KNOWN, file=0.12345)).startswith("REUSE_ODDS = ReuseOdds(file=0.123, search=0.400, ")


def test_the_table_shows_how_often_each_kind_is_needed_and_expected_to_be() -> None:
    rows = [
        *(ReuseRow("file", 400, idle, is_needed=idle < 3) for idle in (0, 2, 5, 90)),
        ReuseRow("search", 400, 0, is_needed=False),
    ]
    odds = ReuseOdds(file=1.0, search=0.25, other=0.1, size_exponent=0.5, idle_exponent=0)
    table = {line.split()[0]: line.split()[1:] for line in list(format_rates(rows, odds))[1:]}
    assert table["file"] == ["4", "50.0", "50.0", "100.0", "0.0", "0.0"]
    assert table["search"] == ["1", "0.0", "20.0", "0.0"]
    assert table["all"] == ["5", "40.0", "44.0", "66.7", "0.0", "0.0"]
    assert list(table) == [*CONTENTS, "all"]
    assert table["view"] == ["0"]


def test_a_project_unlike_the_others_is_badly_described_by_them() -> None:
    def table(by_project: dict[str, list[OutputHistory]]) -> dict[str, list[float]]:
        return {
            row.split()[0]: [float(cell) for cell in row.split()[1:]] for row in list(format_projects(by_project))[1:]
        }

    alike = {"a": outputs_as_likely_as(KNOWN), "b": outputs_as_likely_as(KNOWN)}
    fitted, others, constant, current = table(alike)["a"]
    assert others <= fitted < others + 1
    assert max(constant, current) < others
    unlike = {**alike, "c": outputs_as_likely_as(replace(KNOWN, file=0.05, other=2.0))}
    fitted, others, _, _ = table(unlike)["c"]
    assert others < fitted - 50
    assert len(table({"a": alike["a"]})["a"]) == 2, "there are no others"


def write_session(folder: Path, name: str, line: str = "what a later call says again") -> None:
    rows = [
        {"t": "assistant", "calls": [{"id": "1", "name": "Read", "args": {"file_path": "a"}}]},
        {"t": "output", "id": "1", "text": f"{'word ' * 200}\n{line}"},
        *({"t": turn, "text": text} for _ in range(4) for turn, text in (("assistant", "hm"), ("user", "so?"))),
        {"t": "assistant", "calls": [{"id": "2", "name": "Bash", "args": {"command": line}}]},
    ]
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_command_prints_rates_projects_and_odds(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_session(tmp_path, "app-codex-00.jsonl")
    monkeypatch.setattr("sys.argv", ["fit", str(tmp_path), "--all"])
    assert main() == 0
    printed = capsys.readouterr().out
    table = {line.split()[0]: line.split()[1:] for line in printed.splitlines() if line}
    assert table["file"][:2] == table["all"][:2] == ["1", "100.0"]
    assert table["report"] == ["0"]
    assert len(table["app"]) == 2
    assert printed.startswith("all recordings: 1 session of 1 project\n")
    assert printed.splitlines()[-1].startswith("REUSE_ODDS = ReuseOdds(file=")
    assert main() == 0
    assert capsys.readouterr().out == printed


def test_joined_sessions_are_examined_as_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("app-codex-00.jsonl", "app-codex-01.jsonl"):
        write_session(tmp_path, name)
    counts = []
    for options in ([], ["--joined"]):
        monkeypatch.setattr("sys.argv", ["fit", str(tmp_path), "--all", *options])
        assert main() == 0
        counts += [line.split()[1] for line in capsys.readouterr().out.splitlines() if line.startswith("file")]
    assert counts == ["2", "4"], "the first output is also examined at ages 5 and 8"


def test_only_recordings_for_fitting_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_session(tmp_path, "app-codex-00.jsonl")
    (tmp_path / "app-codex-01.jsonl").mkdir()
    monkeypatch.setattr("sys.argv", ["fit", str(tmp_path)])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert "split.json` is missing" in (message := capsys.readouterr().err)
    assert "`--all` fits all recordings" in message
    (tmp_path / "split.json").write_text('{"fit": ["app-codex-00.jsonl"], "check": ["app-codex-01.jsonl"]}')
    assert main() == 0
    assert capsys.readouterr().out.startswith("the recordings for fitting: 1 session of 1 project\n")


@pytest.mark.parametrize(
    ("folder", "message"),
    [("none", "is not a folder"), (".", "that can be replayed"), ("short", "old and large enough")],
)
def test_a_folder_that_cannot_be_fitted_is_an_error(
    folder: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "short").mkdir()
    (tmp_path / "short" / "app-codex-00.jsonl").write_text('{"t": "assistant", "text": "hm"}\n')
    monkeypatch.setattr("sys.argv", ["fit", str(tmp_path / folder), "--all"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert message in capsys.readouterr().err
