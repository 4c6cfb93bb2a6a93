import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.tools.edits.hunks import place_hunks
from ebbtide.tools.edits.matching import apply_replacements
from ebbtide.tools.edits.patch import AddFile, DeleteFile, FilePatch, PatchError, PatchHunk, UpdateFile, parse_patch
from ebbtide.tools.edits.text_edit import EditTarget

WORDS = st.lists(st.text(alphabet="abc *@+-", max_size=6), max_size=6)


def patched(text: str, body: str) -> str:
    (update,) = parse_patch(f"*** Begin Patch\n*** Update File: f\n{body}\n*** End Patch")
    assert isinstance(update, UpdateFile)
    return apply_replacements(
        text, [hunk.change for hunk in place_hunks(EditTarget("f", text, was_read=True), update.hunks)]
    )


def test_every_part_of_the_format_is_understood() -> None:
    patch = """*** Begin Patch
*** Update File: a.py
*** Move to: b.py
@@ class A:
@@ def f():
 keep
-old
+new

@@
+last
*** End of File
*** Add File: c.py
+one
+
*** Delete File: d.py
*** End Patch"""
    assert parse_patch(patch) == (
        UpdateFile(
            "a.py",
            (
                PatchHunk(("class A:", "def f():"), ((" ", "keep"), ("-", "old"), ("+", "new"))),
                PatchHunk((), (("+", "last"),), is_at_end=True),
            ),
            "b.py",
        ),
        AddFile("c.py", "one\n\n"),
        DeleteFile("d.py"),
    )


@given(WORDS, WORDS)
def test_a_whole_file_can_be_rewritten(before: list[str], after: list[str]) -> None:
    text = "".join(line + "\n" for line in before)
    lines = [f"-{line}" for line in before] + [f"+{line}" for line in after]
    if lines:
        assert patched(text, "\n".join(["@@", *lines])) == "".join(line + "\n" for line in after)


@given(st.text(alphabet="*** BeginPatchEndUpdateFile:\n+- @"))
def test_any_text_is_a_patch_or_a_sentence(text: str) -> None:
    found: tuple[FilePatch, ...] | str
    try:
        found = parse_patch(text)
    except PatchError as error:
        found = str(error)
    assert found


def test_context_keeps_its_own_blanks() -> None:
    assert patched("a  \n\tb\nc\n", " a\n-b\n+B\n c") == "a  \n\tB\nc\n"


def test_line_numbers_and_escapes_in_a_patch_are_taken_off_where_the_rest_fits_once() -> None:
    assert patched("a\nb\nc\n", " 1\ta\n-2\tb\n+2\tB\n 3\tc") == "a\nB\nc\n"
    assert patched("a\nb\nc\n", " 1\ta\n-2\tb\n+B") == "a\nB\nc\n"
    assert patched('f("a")\nb\n', ' f(\\"a\\")\n-b\n+g(\\"b\\")') == 'f("a")\ng("b")\n'
    with pytest.raises(PatchError, match="its lines are not in the file"):
        patched("a\nb\na\nb\n", " 1\ta\n-2\tb\n+B")
    with pytest.raises(PatchError, match="its lines are not in the file"):
        patched("a\nb\n", " 1\ta\n-2\tb\n+2\tB\n+C")


def test_empty_lines_at_the_end_of_a_hunk_belong_to_its_place() -> None:
    text = "a\nb\nif c:\n    a\n    b\n\n"
    assert patched(text, " a\n+x\n b\n ") == "a\nb\nif c:\n    a\n    x\n    b\n\n"
    assert patched("a\nb\n", " a\n-b\n+c\n \n \n") == "a\nc\n"


def test_an_empty_line_behind_the_one_that_lost_its_indentation_tells_nothing_of_levels() -> None:
    text = "for a in b:\n   if c:\n      d()\n   e = 1\n\n"
    with pytest.raises(PatchError, match="does not tell how far"):
        patched(text, "-e = 1\n+with f:\n+      g()\n+   e = 1\n ")


def test_a_first_line_without_its_indentation_tells_nothing_of_levels() -> None:
    with pytest.raises(PatchError, match="in steps of 8 and the file in steps of 4"):
        patched("if a:\n    b\nc\n", " b\n+if d:\n+        e\n c")


def test_a_hunk_whose_lines_are_in_the_file_to_the_letter_is_applied_to_the_letter() -> None:
    assert patched("if a:\n\tb\nc\n", " c\n+if d:\n+ e") == "if a:\n\tb\nc\nif d:\n e\n"


def test_a_missing_final_newline_stays_missing() -> None:
    assert patched("a\nb", "-b\n+c") == "a\nc"
    assert patched("a\nb", "@@\n+c\n*** End of File") == "a\nb\nc"


def test_a_line_above_chooses_the_place() -> None:
    text = "def f():\n    x\ndef g():\n    x\n"
    assert patched(text, "@@ def g():\n-    x\n+    y") == "def f():\n    x\ndef g():\n    y\n"


def test_numbers_of_a_unified_diff_say_nothing() -> None:
    assert patched("a\nb\n", "@@ -9,1 +9,1 @@\n-b\n+c") == "a\nc\n"


def test_a_hunk_that_fits_twice_is_refused() -> None:
    with pytest.raises(PatchError, match=r"hunk 1 of `f` fits at lines 1, 3: add context"):
        patched("x\ny\nx\n", "-x\n+z")


def test_a_hunk_that_does_not_fit_shows_the_closest_lines() -> None:
    with pytest.raises(PatchError) as caught:
        patched("one\nreturn compute(a)\n", "-return compute(b)\n+z")
    assert str(caught.value) == (
        "hunk 1 of `f`: its lines are not in the file; closest is, from line 2:\nreturn compute(a)"
    )


@pytest.mark.parametrize(
    ("patch", "message"),
    [
        ("nonsense", "the first line must be `*** Begin Patch`"),
        ("*** Begin Patch\n*** Add File: a\n+x",
         "the last line must be `*** End Patch`: the patch may have been cut off"),
        ("*** Begin Patch\n*** End Patch", "the patch is empty: name at least one file"),
        ("*** Begin Patch\n*** Add File: a\nx\n*** End Patch",
         "every line of the new file `a` must begin with +, this one does not: 'x'"),
    ],
)  # fmt: skip
def test_a_broken_patch_is_explained(patch: str, message: str) -> None:
    with pytest.raises(PatchError) as caught:
        parse_patch(patch)
    assert str(caught.value) == message
