"""How often outputs are needed again, by kind, age and state, and the curves fitted to that."""

import json
import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.context.fit import (
    CURVE_DECAYS,
    CURVE_LEVELS,
    NEVER_NEEDED,
    NeedRate,
    OutputHistory,
    constant_rates,
    current_curves,
    fit_curve,
    fit_curves,
    format_curves,
    format_projects,
    group_by_idle,
    log_likelihood,
    main,
    need_rates,
    output_histories,
    rates_by_curve,
    total_likelihood,
)
from bench.context.recordings import RecordedCall, RecordedStep, Recording
from ebbtide.agent.view import recalls
from ebbtide.agent.view.recalls import ReuseCurve
from ebbtide.tools.tool_traits import OutputContent


def step(text: str = "", *calls: RecordedCall, texts: tuple[str, ...] = ()) -> RecordedStep:
    return RecordedStep(texts, 0.0, text, 0, calls)


def read(id: str, path: str, output: str) -> RecordedCall:
    return RecordedCall(id, "read", "read", {"path": path}, output)


def recording(*steps: RecordedStep) -> Recording:
    return Recording("app-codex-00", "app", "Codex", steps)


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
        OutputHistory("file", len("12\talpha_one\n13\tbeta_two"), 4, None, [2], [1, 3, 4]),
        OutputHistory("program", len("gamma_three is fine"), 2, None, [1], [2]),
    ]


def test_what_the_line_of_any_output_tells_is_not_needed() -> None:
    text = f"{'word ' * 100}in alpha_one and beta_two"
    found = output_histories(
        recording(step("", read("1", "a", text)), step("", read("2", "b", "beta_two")), step("beta_two"))
    )
    assert [past.needed_at for past in found] == [[], []]
    found = output_histories(recording(step("", read("1", "a", text[-30:])), step("alpha_one")))
    assert [past.needed_at for past in found] == [[0]]


def test_the_newest_output_that_holds_it_is_the_one_that_is_needed() -> None:
    steps = step("", read("1", "a", "alpha_one")), step("", read("2", "b", "alpha_one")), step("alpha_one")
    assert [past.needed_at for past in output_histories(recording(*steps))] == [[], [0]]


def test_a_read_is_stale_from_the_next_reply_after_an_edit_of_its_file() -> None:
    edit = RecordedCall("2", "edit", "edit", {"path": "a", "old": "x", "new": "y"}, "ok")
    patch = RecordedCall("4", "apply_patch", "edit", {"patch": "*** Begin Patch\n*** Update File: b\n"}, "ok")
    steps = step("", read("1", "a", "text"), read("3", "b", "text")), step(), step("", edit), step("", patch), step()
    found = output_histories(recording(*steps))
    assert [past.stale_at for past in found] == [2, 3, None, None]
    assert [found[0].state(age) for age in (1, 2)] == ["untouched", "stale"]


def test_an_output_is_idle_since_it_came_in_or_was_named() -> None:
    past = OutputHistory("file", 500, 50, named_at=[4, 9])
    assert [past.idle(age) for age in (3, 4, 8, 9, 20)] == [3, 0, 4, 0, 11]


def test_a_share_counts_those_after_which_the_session_went_on_as_long() -> None:
    pasts = [
        OutputHistory("file", 500, 9, None, [6]),
        OutputHistory("file", 500, 5, None, [1]),
        OutputHistory("file", 500, 20, 3, [], [8]),
    ]
    found = need_rates(pasts)
    assert found == {2: NeedRate(0, 1), 3: NeedRate(1, 3), 6: NeedRate(1, 2), 7: NeedRate(0, 1)}
    assert group_by_idle(found)[:3] == [NeedRate(0, 1), NeedRate(1, 3), NeedRate(1, 3)]
    assert [str(share) for share in (found[3], NeedRate(0, 0))] == ["33.3", ""]
    assert need_rates(pasts, "stale") == {2: NeedRate(0, 1), 3: NeedRate(0, 1), 6: NeedRate(0, 1), 7: NeedRate(0, 1)}


def test_the_likeliest_curve_is_the_one_that_the_shares_were_made_with() -> None:
    made = {age: NeedRate(round(10_000 * 0.4 * math.exp(-age / 28)), 10_000) for age in (0, 3, 6, 10, 20, 40, 80)}
    assert fit_curve(made) == ReuseCurve(0.4, 28)
    assert fit_curve({3: NeedRate(0, 5)}) == NEVER_NEEDED


RATES = st.dictionaries(
    st.integers(0, 120),
    st.integers(1, 40).flatmap(lambda examined: st.builds(NeedRate, st.integers(0, examined), st.just(examined))),
    min_size=1,
    max_size=6,
)


@settings(max_examples=15, deadline=None)
@given(RATES, st.sampled_from(CURVE_LEVELS), st.sampled_from(CURVE_DECAYS))
def test_no_curve_is_likelier_than_the_fitted_one(rates: dict[int, NeedRate], level: float, decay: int) -> None:
    fitted = log_likelihood(fit_curve(rates), rates)
    assert fitted >= log_likelihood(ReuseCurve(level, decay), rates) - 1e-6 * abs(fitted)


def falling(content: OutputContent, level: float, decay: int, size: int = 500) -> list[OutputHistory]:
    """Outputs that are never named and are needed for the last time as often as a curve says."""
    last_needed = [round(-decay * math.log((number + 0.5) / (400 * level))) for number in range(round(400 * level))]
    needed = [[at] for at in last_needed] + [[] for _ in range(400 - len(last_needed))]
    return [OutputHistory(content, size, 200, None, at) for at in needed]


def test_each_kind_and_size_has_the_curve_of_its_outputs() -> None:
    histories = falling("search", 0.2, 20) + falling("file", 0.5, 10) + falling("file", 0.3, 30, size=10**6)
    curves = fit_curves(histories)
    assert set(curves) == set(rates_by_curve(histories)) == set(current_curves())
    for name, level, decay in (("search", 0.2, 20), ("file, to 1.8k", 0.5, 10), ("file, more", 0.3, 30)):
        assert curves[name].initial_probability == pytest.approx(level, abs=0.03)
        assert curves[name].decay_requests == pytest.approx(decay, abs=3)
    assert curves["file, stale"] == curves["view"] == NEVER_NEEDED
    assert total_likelihood(curves, histories) > total_likelihood(constant_rates(histories), histories)


def test_curves_are_printed_as_the_code_that_has_them() -> None:
    names: dict[str, object] = {}
    exec("\n".join(format_curves(current_curves())), vars(recalls) | {"OutputContent": OutputContent}, names)
    assert (names["CONTENT_CURVES"], names["FILE_CURVES"], names["STALE_FILE_CURVE"]) == (
        recalls.CONTENT_CURVES,
        recalls.FILE_CURVES,
        recalls.STALE_FILE_CURVE,
    )


def test_a_project_unlike_the_others_is_badly_described_by_them() -> None:
    alike = {"a": falling("search", 0.2, 20), "b": falling("search", 0.2, 20)}
    rows = {row.split()[0]: [float(cell) for cell in row.split()[1:]] for row in list(format_projects(alike))[1:]}
    assert rows["a"][0] == pytest.approx(rows["a"][1])
    unlike = {**alike, "c": falling("search", 0.8, 60)}
    rows = {row.split()[0]: [float(cell) for cell in row.split()[1:]] for row in list(format_projects(unlike))[1:]}
    assert rows["c"][1] < 1.5 * rows["c"][0] < 0
    assert list(format_projects({"a": alike["a"]}))[1].split()[0] == "a"
    assert len(list(format_projects({"a": alike["a"]}))[1].split()) == 3


def write_session(folder: Path, name: str, line: str = "what a later call says again") -> None:
    rows = [
        {"t": "assistant", "calls": [{"id": "1", "name": "Read", "args": {"file_path": "a"}}]},
        {"t": "output", "id": "1", "text": f"{'word ' * 200}\n{line}"},
        *({"t": turn, "text": text} for _ in range(4) for turn, text in (("assistant", "hm"), ("user", "so?"))),
        {"t": "assistant", "calls": [{"id": "2", "name": "Bash", "args": {"command": line}}]},
    ]
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_command_prints_rates_and_curves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_session(tmp_path, "app-codex-00.jsonl")
    monkeypatch.setattr("sys.argv", ["fit", str(tmp_path), "--all"])
    assert main() == 0
    printed = capsys.readouterr().out
    table = {line[:24].strip(): line[24:].split() for line in printed.splitlines()}
    assert table["file, untouched"][:2] == ["1", "100.0"]
    assert table["report"] == ["0", "never", "needed"]
    assert printed.startswith("all recordings: 1 session of 1 project\n")
    assert "STALE_FILE_CURVE = ReuseCurve(0.0, 1)" in printed
    assert main() == 0
    assert capsys.readouterr().out == printed


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


@pytest.mark.parametrize(("folder", "message"), [("none", "is not a folder"), (".", "that can be replayed")])
def test_a_folder_that_cannot_be_fitted_is_an_error(
    folder: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["fit", str(tmp_path / folder), "--all"])
    with pytest.raises(SystemExit) as left:
        main()
    assert left.value.code == 2
    assert message in capsys.readouterr().err
