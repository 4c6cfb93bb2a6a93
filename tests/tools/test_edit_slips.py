"""Exact edits are made exactly. Edits with the slips of models come out right or are refused."""

import re
from collections.abc import Callable
from difflib import SequenceMatcher
from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ebbtide.tools.base import ToolError
from ebbtide.tools.edits.hunks import place_hunks
from ebbtide.tools.edits.patch import PatchError, UpdateFile, parse_patch
from ebbtide.tools.edits.text_edit import EditTarget, plan_edit
from ebbtide.tools.files.punctuation import ascii_punctuation
from ebbtide.tools.files.text import decode_file
from tests.conftest import thorough
from tests.kit.edit_slips import SlippedEdit, slipped_edit

SEEDS = st.integers(0, 2**48)

WRONG = {
    "one line of text among empty ones, without its indentation": (1109804, 1141684, 1158609, 1277642),
    "a first line that lost its indentation, and all lines moved": (1296108, 2016837, 2032155, 3097257),
    "steps that are none of the file's": (1286887, 12034319, 12159874, 13194871),
    "lines that are alike without their indentation": (1066464, 1068484, 1081433, 1196589, 1251812, 1295797),
    "lines that differ in blanks at their ends": (2107427,),
    "a change of nothing but the indentation that was lost": (2071416, 5004408),
    "lines that are deeper in the call and less deep in the file": (5013436, 6086879),
    "an opener put among lines without indentation": (470, 1308, 2527),
    "an odd step behind a lost indentation": (20057916, 21154922),
    "the blanks of empty lines that stay": (20319684, 21386148, 30001416),
}
"""Seeds of calls that were once made otherwise than they were meant, by what was wrong with them."""


def once_wrong(test: Callable[..., None]) -> Callable[..., None]:
    for seed in (seed for seeds in WRONG.values() for seed in seeds):
        test = example(seed)(test)
    return test


@settings(max_examples=thorough(400))
@given(SEEDS)
@once_wrong
def test_an_edit_with_slips_is_right_or_refused(seed: int) -> None:
    call = slipped_edit(Random(seed))
    file = decode_file(call.before)
    old, new = (text.replace("\r\n", "\n") for text in (call.old, call.new))
    if file.normalised_text.count(old) == 1:
        return  # it is made to the letter, as the property below says
    try:
        changes = plan_edit(EditTarget("f", file.normalised_text, was_read=True), old, new, replace_all=False).changes
    except ToolError:
        return
    assert_meant(call, file.with_changes(changes).encode())


PIECES = st.lists(
    st.sampled_from(["a = 1", "  b", "\tc:", "", "  ", "\t", "- x", "}", "é", "...", "end", "a"]),
    min_size=1,
    max_size=9,
)
LINE_ENDS = st.sampled_from(["\n", "\r\n"])


@settings(max_examples=thorough(1000))
@given(PIECES, PIECES, LINE_ENDS, st.booleans(), st.data())
def test_an_exact_edit_is_what_replace_makes_of_the_file(
    lines: list[str], others: list[str], line_end: str, is_ended: bool, data: st.DataObject
) -> None:
    """Whole lines and parts of them, deleted, inserted and changed, in the line ends of the file."""
    text = "\n".join(lines) + "\n" * is_ended
    start = data.draw(st.integers(0, max(len(text) - 1, 0)))
    old = text[start : data.draw(st.integers(start, len(text)))]
    dropped = data.draw(st.sets(st.integers(0, old.count("\n"))))
    fewer = "\n".join(line for at, line in enumerate(old.split("\n")) if at not in dropped)
    new = data.draw(st.sampled_from(["", fewer, old + fewer, "\n".join(others), fewer + "\n", old.upper()]))
    if "\n" not in text and "\n" in new:
        return  # the file does not show how its lines end
    if not old or old == new or sum(text.startswith(old, at) for at in range(len(text))) != 1:
        return
    file = decode_file(text.replace("\n", line_end).encode())
    changes = plan_edit(EditTarget("f", file.normalised_text, was_read=True), old, new, replace_all=False).changes
    assert file.with_changes(changes).encode() == text.replace(old, new).replace("\n", line_end).encode()


@settings(max_examples=thorough(200))
@given(SEEDS)
@once_wrong
def test_a_patch_with_slips_is_right_or_refused(seed: int) -> None:
    call = slipped_edit(Random(seed))
    if any("line end" in slip or slip == "CRLF" for slip in call.slips):
        return
    file = decode_file(call.before)
    lines, old = file.normalised_text.split("\n"), call.old.split("\n")
    spots = [at for at in range(len(lines)) if lines[at : at + len(old)] == old]
    if spots and spots != [call.first]:
        return  # it names another place, to the letter
    try:
        (part,) = parse_patch(patch_of(old, call.new.split("\n") if call.new else []))
        assert isinstance(part, UpdateFile)
        changes = [
            hunk.change for hunk in place_hunks(EditTarget("f", file.normalised_text, was_read=True), part.hunks)
        ]
    except PatchError:
        return
    assert_meant(call, file.with_changes(changes).encode())


def assert_meant(call: SlippedEdit, made: bytes) -> None:
    if call.before in (call.after, made) or call.names_another:
        return  # an edit that changes nothing is refused by both tools
    is_right = made == call.after or (call.is_lossy and words_of(made) == words_of(call.after))
    assert is_right, f"{call}\nbecame\n{made!r}"


def words_of(content: bytes) -> list[str]:
    """The lines with their indentation, and without what some slips leave open: signs, and blanks behind or inside."""
    lines = decode_file(content).normalised_text.split("\n")
    return [
        (re.match(r"[ \t]*", line) or [""])[0] + " ".join(ascii_punctuation(line).split()) if line.strip() else ""
        for line in lines
    ]


def patch_of(old: list[str], new: list[str]) -> str:
    body: list[str] = []
    for tag, i, j, k, m in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            body += [f" {line}" for line in old[i:j]]
        else:
            body += [f"-{line}" for line in old[i:j]] + [f"+{line}" for line in new[k:m]]
    return "\n".join(["*** Begin Patch", "*** Update File: f", "@@", *body, "*** End Patch"])
