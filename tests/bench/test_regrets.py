"""What counts as distinctive, and which outputs are regretted by each measure, how often and why."""

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from bench.context.recordings import RecordedCall
from bench.context.regrets import (
    Regret,
    SeenOutputs,
    distinctive_names,
    distinctive_values,
    phrases,
    reply_content,
    reply_parts,
)

PROSE = "The parser drops the last token of every line that ends in a comma."
CODE = "total = fetch(order) or fallback[0]"
WORDS = ("alpha", "Beta", "größer", "сервер", "修复解析器", "it's", "İstanbul", "Σας", "cafe\u0301", "हिन्दी", "e-mail")
TOKENS = st.sampled_from(
    (*WORDS, "token_store.py", "parseLine", "12345", "1.25.75", "a1b2c3d", "=", "foo()", ",", "“end”")
)
LINES = st.lists(TOKENS, min_size=1, max_size=10).map(" ".join)
TEXTS = st.lists(LINES, max_size=4).map("\n".join)


def bash(id: str, output: str) -> RecordedCall:
    return RecordedCall(id, "bash", "bash", {}, output)


def seen(outputs: Mapping[str, str], shown: Mapping[str, str] | None = None) -> SeenOutputs:
    """Outputs that arrived in step 0 and were shown whole in step 1. `shown`: what the request of step 2 shows."""
    found = SeenOutputs()
    for id, text in outputs.items():
        found.add(bash(id, text), 0)
    found.record_request(outputs, 1)
    found.record_request(shown or {}, 2)
    return found


def regrets_of(
    found: SeenOutputs, text: str, *, calls: Sequence[RecordedCall] = (), view: Sequence[str] = (), step: int = 2
) -> tuple[Regret, ...]:
    return found.regrets(text, calls, step, lambda: view)


def wanted_of(output: str, reply: str, *view: str) -> list[tuple[str, str]]:
    return [(one.measure, one.wanted) for one in regrets_of(seen({"1": output}), reply, view=view)]


def test_names_are_what_people_do_not_write_by_chance() -> None:
    assert distinctive_names("src/app/token_store.py has parseLine, implementation details and v1.2.3-rc4") == {
        "token_store.py",
        "parseLine",
        "v1.2.3-rc4",
    }
    edit = RecordedCall("1", "edit", "edit", {"old": "    return value + some other  \n  x", "new": ["short"]})
    assert reply_parts("", [edit]) == {"return value + some other"}


def test_values_are_long_numbers_versions_and_checksums() -> None:
    long, separated = "took 12345ms, 98765 bytes, not 1234", "3.1416 and 1,234,567.5 and v10.12.3, not 12.5 or 1.2.3"
    checksums = f"a1b2c3d {'0f' * 64} 4F3A2B1C, not defaced or x12345 or 12345_a"
    assert distinctive_values(long) == {"12345", "98765"}
    assert distinctive_values(separated) == {"3.1416", "1,234,567.5", "10.12.3"}
    assert distinctive_values(checksums) == {"a1b2c3d", "0f" * 64, "4F3A2B1C"}
    assert distinctive_values("10001,20002,3,x=192.168.10.1;") == {"10001", "20002", "192.168.10.1"}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("one two three four five six", ["one two three four five six"]),
        ("One, two (three) “four”: *five* `six`!", ["one two three four five six"]),
        ("one two , three four . five six", ["one two three four five six"]),
        ("isn’t it e2e well-known, o'clock now", ["isn't it e2e well-known o'clock now"]),
        ("one two three\nfour five six", []),
        ("one two three foo() four five six", []),
        ("one two three a_b four five six", []),
        ("one two three a/b.py four five six", []),
        ("one two three 4 five six seven", []),
        ("one two three = four five six", []),
        ("one two three four five", []),
        ("Der Server prüft täglich, wie größere", ["der server prüft täglich wie größere"]),
        ("Der Server pru\u0308ft ta\u0308glich wie groß", ["der server prüft täglich wie groß"]),
        ("Сервер проверяет каждое изменение, перед записью", ["сервер проверяет каждое изменение перед записью"]),
        ("सर्वर हर बदलाव को जाँचता है।", ["सर्वर हर बदलाव को जाँचता है"]),
        ("修复解析器中的错误，运行测", ["修 复 解 析 器 中 的 错 误 运 行 测"]),
        ("修复解析器中的错误。", []),
        ("修复 parser 中的错误", []),
    ],
)
def test_phrases_are_six_words_of_a_line(text: str, found: list[str]) -> None:
    assert list(phrases(text)) == [f" {phrase} " for phrase in found]


def test_every_six_words_in_a_row_are_a_phrase() -> None:
    assert list(phrases("a b c d e f g h = i")) == [" a b c d e f ", " b c d e f g ", " c d e f g h "]


def test_content_is_found_in_a_reply_and_in_the_arguments_of_its_calls() -> None:
    call = RecordedCall("1", "edit", "edit", {"new": ["total = fetch(12345)  # for now", 7]})
    assert reply_content("one two three four five six", [call]) == {
        "one two three four five six",
        " one two three four five six ",
        "total = fetch(12345)  # for now",
        "12345",
    }


@pytest.mark.parametrize(
    ("output", "reply", "wanted"),
    [
        (CODE, f"  {CODE}  ", CODE),
        (f"  12\t{CODE}", f"use\n{CODE}", CODE),
        (f"a.py:12:{CODE}", CODE, CODE),
        (f"{CODE}\r\n", CODE, CODE),
        (PROSE, f"> {PROSE}", "drops the last token of every"),
        (PROSE, "As seen, the PARSER drops *the last* token, twice", "parser drops the last token"),
        ("elapsed: 48211 ms", "It took 48211ms.", "48211"),
        ("HEAD is now at 3f2a91c", "The commit is 3f2a91c.", "3f2a91c"),
        ("left-pad v10.12.3", "left-pad is at 10.12.3.", "10.12.3"),
        ("解析器会丢弃每一行的最后一个标记", "它说解析器会丢弃每一行的最后", "解 析 器 会"),
        (
            "Парсер теряет последний знак каждой строки, если",
            "знак: парсер теряет последний знак каждой строки",
            "парсер",
        ),
    ],
)
def test_content_of_an_output_that_is_gone_is_regretted(output: str, reply: str, wanted: str) -> None:
    (found,) = regrets_of(seen({"1": output}), reply)
    assert (found.measure, found.id, found.characters, found.age) == ("content", "1", len(output), 2)
    assert wanted in found.wanted
    assert (found.cause, found.needs_recall) == ("summarised", True)


@pytest.mark.parametrize(
    ("output", "reply"),
    [
        (PROSE, "The parser drops\nthe last token of a\nline that ends"),
        (PROSE, "The parser drops `the_last` token of every word, that ends in a comma"),
        ("1234 of 12.5", "1234 of 12.5"),
        ("48211", "148211"),
        ("ends in a comma", "ends in a comma"),
    ],
)
def test_what_is_not_distinctive_is_not_regretted(output: str, reply: str) -> None:
    assert wanted_of(output, reply) == []


@pytest.mark.parametrize(
    ("view", "is_visible"),
    [
        ((PROSE,), True),
        (("a user asks", f"see:\n  7\t{PROSE}"), True),
        ((PROSE.replace(" every", "\nevery"), f"{PROSE} And more"), True),
        ((PROSE.replace(" every", "\nevery"),), False),
        ((PROSE[:40], PROSE[40:]), False),
        (("so THE PARSER drops the last token of every line that", "`of every line that ends` in a comma"), False),
        ((), False),
    ],
)
def test_a_line_that_another_text_of_the_request_shows_is_not_regretted(view: Sequence[str], is_visible: bool) -> None:
    assert (wanted_of(PROSE, PROSE, *view) == []) == is_visible


@pytest.mark.parametrize(
    ("view", "is_visible"),
    [
        ("He said: drops THE LAST token, of `every`", True),
        ("a.py:7:drops the last token of every", True),
        ("drops the last token of each", False),
        ("it drops the last\ntoken of every", False),
        ("drops the last token = of every", False),
    ],
)
def test_a_phrase_is_visible_in_any_case_and_punctuation(view: str, is_visible: bool) -> None:
    assert (wanted_of(PROSE, "It drops the last token of every", view) == []) == is_visible


@pytest.mark.parametrize(
    ("view", "is_visible"),
    [
        ("12345", True),
        ("12345.5 or x=12345;", True),
        ("912345, 123456 and 9123456", False),
        ("1234 5", False),
    ],
)
def test_a_number_within_a_longer_one_is_not_visible(view: str, is_visible: bool) -> None:
    assert (wanted_of("12345", "12345", view) == []) == is_visible


def test_an_abbreviated_checksum_is_visible_in_the_full_one() -> None:
    assert wanted_of("commit 3f2a91c", "3f2a91c") == [("content", "3f2a91c")]
    assert wanted_of("commit 3f2a91c", "3f2a91c", "commit 3f2a91c07b2e") == []


def test_nothing_is_regretted_of_an_output_while_another_that_contains_it_is_shown() -> None:
    found = seen({"1": PROSE, "2": f"{PROSE}\nand 48211"}, {"1": PROSE})
    assert [(one.id, one.wanted) for one in regrets_of(found, f"{PROSE} 48211")] == [("2", "48211")]


def test_the_regret_belongs_to_the_newest_output_that_contains_it() -> None:
    found = seen({"1": PROSE, "2": PROSE, "3": "other"})
    assert [(one.id, one.measure) for one in regrets_of(found, PROSE)] == [("2", "content")]


def test_the_request_is_not_read_if_nothing_of_an_output_is_used() -> None:
    def view() -> Sequence[str]:
        raise AssertionError("read")

    found = seen({"1": PROSE, "2": "at 48211"}, {"2": "at 48211"})
    assert found.regrets("at 48211, nothing else", (), 2, view) == ()


def test_an_output_is_regretted_once_by_each_measure_and_recalled_once() -> None:
    found = seen({"1": f"token_store.py says: {PROSE} 48211"})
    reply = f"token_store.py says: {PROSE} 48211"
    assert [(one.measure, one.needs_recall) for one in regrets_of(found, reply)] == [
        ("names", True),
        ("content", False),
    ]
    assert regrets_of(found, reply) == (), "it counts as recalled until the next rewrite"
    found.record_request({}, 3)
    assert regrets_of(found, reply) == (), "nothing was rewritten"
    found.add(bash("2", "new"), 3)
    found.record_request({"2": "new"}, 4)
    assert regrets_of(found, reply) == (), "an output that arrives is no rewrite"
    found.record_request({"2": "masked"}, 5)
    assert [(one.measure, one.needs_recall) for one in regrets_of(found, reply)] == [
        ("names", True),
        ("content", False),
    ]


def test_a_measure_regrets_later_what_the_other_has_recalled_without_another_recall() -> None:
    found = seen({"1": f"token_store.py says: {PROSE}"})
    assert [(one.measure, one.needs_recall) for one in regrets_of(found, "token_store.py")] == [("names", True)]
    assert [(one.measure, one.needs_recall) for one in regrets_of(found, PROSE)] == [("content", False)]


def test_a_text_of_a_recalled_output_needs_no_recall_of_a_newer_one() -> None:
    found = seen({"1": f"token_store.py\n{PROSE}", "2": f"parse_line.py\n{PROSE}"})
    found_regrets = regrets_of(found, f"token_store.py\n{PROSE}")
    assert [(one.measure, one.id, one.needs_recall) for one in found_regrets] == [
        ("names", "1", True),
        ("content", "2", False),
    ]


def test_two_outputs_that_a_reply_needs_are_two_recalls() -> None:
    found = regrets_of(seen({"1": PROSE, "2": "at 48211"}), f"{PROSE} at 48211")
    assert [(one.id, one.needs_recall) for one in found] == [("1", True), ("2", True)]


def test_the_cause_is_what_removed_an_output_first() -> None:
    found = SeenOutputs()
    for number, text in enumerate(("12\talpha_one()", "beta_two()", "gamma_three()", "alpha_one() again")):
        found.add(RecordedCall(str(number), "read", "read", {}, text), number)
    found.record_request({str(number): found.outputs[str(number)].full_text for number in range(3)}, 3)
    assert regrets_of(found, "beta_two gamma_three", step=4) == ()
    found.record_request({"0": "12\talpha_one()", "1": "Viewed b", "3": "cut"}, 4)
    wanted = "alpha_one beta_two gamma_three"
    assert [(one.id, one.cause) for one in regrets_of(found, wanted, step=4)] == [("1", "masked"), ("2", "summarised")]
    assert [found.outputs[id].masked_at for id in "0123"] == [None, 3, None, None]
    assert [found.outputs[id].first_cause for id in "0123"] == [None, "masked", "summarised", "cut"]
    assert regrets_of(found, wanted, step=5) == (), "what was regretted counts as recalled until the next rewrite"
    found.record_request({"3": "cut"}, 6)
    assert regrets_of(found, "beta_two", view=("we spoke of", "beta_two"), step=6) == ()
    assert [(one.id, one.cause, one.age) for one in regrets_of(found, "alpha_one beta_two", step=6)] == [
        ("3", "cut", 3),
        ("1", "masked", 5),
    ]


@pytest.mark.parametrize(
    ("shown", "cause"),
    [
        (((PROSE,), ("",)), "masked"),
        (((PROSE,), (None,)), "summarised"),
        (((PROSE,), ("masked",), (None,)), "masked"),
        ((("cut",),), "cut"),
        ((("cut",), (None,)), "cut"),
        (((f"{PROSE}\n[more]",), (None,)), "summarised"),
        (((None,),), "summarised"),
    ],
)
def test_content_is_regretted_for_the_first_cause(shown: Sequence[tuple[str | None]], cause: str) -> None:
    found = SeenOutputs()
    found.add(bash("1", PROSE), 1)
    assert found.outputs["1"].first_cause is None
    for step, (text,) in enumerate(shown, 1):
        found.record_request({} if text is None else {"1": text}, step)
    assert [(one.measure, one.cause) for one in regrets_of(found, PROSE)] == [("content", cause)]
    assert found.outputs["1"].first_cause == cause


def test_a_part_that_was_shown_of_a_cut_output_was_not_cut() -> None:
    found = SeenOutputs()
    found.add(bash("1", f"{PROSE}\nat 48211"), 1)
    found.record_request({"1": f"{PROSE}\n[cut]"}, 1)
    found.record_request({}, 2)
    assert [(one.wanted, one.cause) for one in regrets_of(found, "48211")] == [("48211", "cut")]
    found.outputs["1"].regretted_by.clear()
    assert [one.cause for one in regrets_of(found, "THE parser drops the last token")] == ["summarised"]


def test_an_output_that_is_shown_whole_again_is_not_regretted() -> None:
    found = seen({"1": PROSE}, {"1": "masked"})
    found.record_request({"1": PROSE}, 3)
    assert regrets_of(found, PROSE) == ()
    assert found.outputs["1"].first_cause == "masked"


@given(st.lists(TEXTS, max_size=4), TEXTS)
def test_nothing_is_regretted_while_every_output_is_shown_whole(outputs: Sequence[str], reply: str) -> None:
    texts = {str(number): text for number, text in enumerate(outputs)}
    assert regrets_of(seen(texts, texts), "\n".join([reply, *outputs])) == ()


@given(st.lists(TEXTS, min_size=1, max_size=4), st.data())
def test_what_is_wanted_stands_in_its_output_and_showing_it_removes_the_regret(
    outputs: Sequence[str], data: st.DataObject
) -> None:
    texts = {str(number): text for number, text in enumerate(outputs)}
    reply = "\n".join(data.draw(st.lists(LINES | st.sampled_from(outputs), max_size=4)))
    found_regrets = regrets_of(seen(texts), reply)
    assert len({(one.id, one.measure) for one in found_regrets}) == len(found_regrets)
    for regret in found_regrets:
        only_its_own = seen({regret.id: texts[regret.id]})
        assert [one.measure for one in regrets_of(only_its_own, regret.wanted)].count(regret.measure) == 1
        remaining = regrets_of(seen(texts), reply, view=[regret.wanted])
        assert (regret.measure, regret.id, regret.wanted) not in [
            (one.measure, one.id, one.wanted) for one in remaining
        ]


@given(st.lists(TEXTS, min_size=1, max_size=4), st.data())
def test_the_order_of_calls_in_a_reply_makes_no_difference(outputs: Sequence[str], data: st.DataObject) -> None:
    texts = {str(number): text for number, text in enumerate(outputs)}
    arguments = data.draw(st.lists(LINES | st.sampled_from(outputs), max_size=4))
    calls = [RecordedCall(f"c{number}", "edit", "edit", {"new": one}) for number, one in enumerate(arguments)]
    assert regrets_of(seen(texts), "", calls=calls) == regrets_of(
        seen(texts), "", calls=data.draw(st.permutations(calls))
    )


@given(st.lists(TEXTS, min_size=2, max_size=4, unique=True), TEXTS, st.data())
def test_the_order_in_which_outputs_of_a_step_arrive_changes_no_number_of_recalls(
    outputs: Sequence[str], reply: str, data: st.DataObject
) -> None:
    """If two outputs contain what is wanted, the regret may belong to the other one."""
    texts = {str(number): text for number, text in enumerate(outputs)}
    parts = [part for text in outputs for part in reply_parts(text, ()) | reply_content(text, ())]
    assume(len(parts) == len(set(parts)))
    turned = {id: texts[id] for id in data.draw(st.permutations(list(texts)))}
    assert regrets_of(seen(texts), reply) == regrets_of(seen(turned), reply)


def test_only_the_phrases_of_the_latest_request_are_kept() -> None:
    found = seen({"1": PROSE, "2": "Sessions are closed only after the last reader has left"})
    assert len(regrets_of(found, "drops the last token of every", view=[f"an old text {n}" for n in range(50)])) == 1
    regrets_of(found, "closed only after the last reader has", view=["old text 1", "new text"])
    assert sorted(found._phrases) == ["new text", "old text 1"]
