"""How often outputs are needed again, by kind, age and state."""

import json
import math
from pathlib import Path

import pytest

from bench.context.recordings import RecordedCall, RecordedStep, Recording
from bench.context.reread_rates import (
    NeedRate,
    OutputHistory,
    fit_curve,
    group_by_idle,
    main,
    need_rates,
    output_histories,
)


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
    assert fit_curve(made) == (0.4, 28)
    assert fit_curve({3: NeedRate(0, 5)}) is None


def test_the_command_prints_a_row_for_each_kind_and_state(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = "what a later call says again"
    rows = [
        {"t": "assistant", "calls": [{"id": "1", "name": "Read", "args": {"file_path": "a"}}]},
        {"t": "output", "id": "1", "text": f"{'word ' * 200}\n{line}"},
        *({"t": turn, "text": text} for _ in range(4) for turn, text in (("assistant", "hm"), ("user", "so?"))),
        {"t": "assistant", "calls": [{"id": "2", "name": "Bash", "args": {"command": line}}]},
    ]
    (tmp_path / "one.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.setattr("sys.argv", ["wanted", str(tmp_path)])
    assert main() == 0
    table = {line[:24].strip(): line[24:].split() for line in capsys.readouterr().out.splitlines()}
    assert table["file, untouched"][:2] == ["1", "100.0"]
    assert table["report"] == ["0", "never", "needed"]
    monkeypatch.setattr("sys.argv", ["wanted", str(tmp_path / "none")])
    with pytest.raises(SystemExit) as left:
        main()
    assert (left.value.code, "is not a folder" in capsys.readouterr().err) == (2, True)
