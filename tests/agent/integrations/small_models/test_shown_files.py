"""Files that a model shows in its answer: which of its pieces is which file, and what that would hold then."""

import time

import pytest

from ebbtide.agent.integrations.small_models.files_in_answer import file_from_answer, merge_snippet

CALC = "def add(a, b):\n    return a - b\n\n\ndef mul(a, b):\n    return a * b\n"
PACKAGE = '{\n  "version": "1.0.0",\n  "dependencies": {\n    "left-pad": "1.0.0"\n  }\n}\n'
CALL = '{\n  "name": "bash",\n  "arguments": {"command": "chmod +x package.json && npm version 1.1.0"}\n}\n'
FIXED = CALC.replace("a - b", "a + b")


def fenced(text: str, language: str = "python") -> str:
    return f"Here it is:\n\n```{language}\n{text}```\n\nThat is all."


@pytest.mark.parametrize(
    ("answer", "files", "found"),
    [
        (fenced(FIXED), {"calc.py": CALC}, ("calc.py", FIXED)),
        (fenced("# calc.py\n" + FIXED), {"src/calc.py": CALC}, ("src/calc.py", FIXED)),
        (fenced(FIXED).removesuffix("```\n\nThat is all."), {"calc.py": CALC}, ("calc.py", FIXED)),
        (fenced("def add(a, b):\n    return a + b\n"), {"calc.py": CALC}, ("calc.py", FIXED)),
        (fenced(FIXED), {"a.md": "# Title\n\nwords\n", "calc.py": CALC}, ("calc.py", FIXED)),
        (fenced("class A:\n    pass\n") + fenced(FIXED), {"calc.py": CALC}, ("calc.py", FIXED)),
        (fenced(CALC), {"calc.py": CALC}, None),
        (fenced(CALL, "json"), {"package.json": PACKAGE}, None),
        (fenced(FIXED, "bash"), {"calc.py": CALC}, None),
        (fenced("for x in range(10):\n    print(x)\n"), {"calc.py": CALC}, None),
        (fenced("return a + b\n"), {"calc.py": CALC}, None),
        (fenced("total = 0\nfor x in range(10):\n    return a * b\n"), {"calc.py": CALC}, None),
        (fenced("def add(a, b):\nreturn a + b\n"), {"calc.py": ""}, None),
        ("def add(a, b): return a + b", {"calc.py": CALC}, None),
    ],
)
def test_the_piece_that_is_most_like_a_file_is_that_file(
    answer: str, files: dict[str, str], found: tuple[str, str] | None
) -> None:
    assert file_from_answer(answer, files) == found


def test_one_piece_is_the_one_new_file_that_is_asked_for() -> None:
    assert file_from_answer(fenced("# hello.py\nprint('hello')\n"), {}, ["hello.py"]) == (
        "hello.py",
        "print('hello')\n",
    )
    assert file_from_answer(fenced("print(1)\n") + fenced("print(2)\n"), {}, ["hello.py"]) is None
    assert file_from_answer(fenced("print(1)\n"), {}, ["a.py", "b.py"]) is None
    assert file_from_answer(fenced("print(1)\n"), {"calc.py": CALC}, ["a.py"]) is None


def test_what_stands_before_and_behind_a_piece_stays() -> None:
    def f(name: str, body: str = "pass") -> str:
        return f"def {name}():\n    {body}\n"

    whole = f"import os\n\n\n{f('one')}\n\n{f('two')}\n\n{f('three')}"
    assert merge_snippet(whole, f("two", "return 2")) == whole.replace(f("two"), f("two", "return 2"))
    assert merge_snippet(whole, f("three", "x = 1\n    return x")) == whole.replace(
        f("three"), f("three", "x = 1\n    return x")
    )
    assert merge_snippet(whole, f"{f('one')}\n\n{f('three', 'return 3')}") is None
    assert merge_snippet("a = 1\nmain()\n", "a = 1\nif b:\n    main()\n") == "a = 1\nif b:\n    main()\n"
    assert merge_snippet("alpha\nbeta", "alpha\nbet\n") == "alpha\nbet"
    assert merge_snippet("", "a") == "a\n"


def test_a_long_piece_is_not_compared() -> None:
    assert file_from_answer(fenced("x\n" * 11_000), {"a": "x\n"}) is None
    assert file_from_answer(fenced("x\n"), {"a": "x\n" * 11_000}) is None


@pytest.mark.parametrize(
    ("file", "piece"),
    [
        (
            "".join(f"value_{n} = compute({n})\n" for n in range(700)),
            "".join(f"o{n * 7} = r[{n}]\n" for n in range(700)),
        ),
        ("x\n" * 9_000, "x\n" * 8_000),
        ("    return first\n    print(second)\n" * 500, "    print(first)\n    return second\n" * 500),
    ],
)
def test_long_files_are_compared_quickly(file: str, piece: str) -> None:
    began = time.process_time()
    file_from_answer(fenced(piece), {"a.py": file})
    assert time.process_time() - began < 2


def test_a_changed_block_of_a_long_file_is_still_recognised() -> None:
    file = "".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(300))
    changed = file.replace("return 17\n", "return 18\n")
    assert file_from_answer(fenced(changed), {"a.py": file}) == ("a.py", changed)
