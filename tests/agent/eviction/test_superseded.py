"""Which reads are shown again further down."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.eviction.carrying_costs import mask_outputs
from ebbtide.agent.eviction.inventory import FileLineRange, MeasurementCache, find_line_range
from ebbtide.agent.messages import Assistant, Conversation, ToolCall, ToolOutput, User


def read(id: str, first: int, last: int, path: str = "a.py") -> tuple[ToolCall, ToolOutput]:
    words = "of the file, as it stands there " * 12
    lines = [f"{number}\tline {number} 7\t8 {words}" for number in range(first, last + 1)]
    return ToolCall(id, "read", {"path": path}), ToolOutput(id, "\n".join(lines))


def write(id: str, path: str = "a.py") -> tuple[ToolCall, ToolOutput]:
    return ToolCall(id, "write", {"path": path, "content": "x"}), ToolOutput(id, "written")


def repeated(seen: Sequence[tuple[ToolCall, ToolOutput]], masked: frozenset[str] = frozenset()) -> set[str]:
    """The calls that showed nothing but what a later output still shows."""
    steps = [message for call, output in seen for message in (Assistant((call,)), User((output,)))]
    stock = MeasurementCache().measure(Conversation(tuple(steps), masked=masked))
    return {seen[int(item.key[1:]) - 1][0].id for item in stock.items if item.is_superseded}


def test_a_read_is_superseded_by_one_that_shows_its_lines_again() -> None:
    seen = [read("1", 1, 50), read("2", 40, 90), read("3", 1, 60, "./a.py"), read("4", 1, 60, "b.py")]
    assert repeated(seen) == {"1"}


def test_what_is_masked_stands_for_nothing() -> None:
    assert repeated([read("1", 1, 50), read("2", 1, 50)], frozenset({"2"})) == set()


def test_a_file_written_as_a_whole_supersedes_every_read_of_it() -> None:
    seen = [read("1", 1, 50), read("2", 7, 9), write("3"), read("4", 1, 5)]
    assert repeated(seen) == {"1", "2"}


def test_a_read_that_failed_or_was_cut_in_its_middle_supersedes_nothing() -> None:
    call, whole = read("2", 1, 50)
    cut = ToolOutput("2", "\n".join([*whole.text.split("\n")[:3], "[… left out …]", *whole.text.split("\n")[-3:]]))
    assert repeated([read("1", 1, 50), (call, ToolOutput("2", whole.text, "failed"))]) == set()
    assert repeated([read("1", 1, 50), (call, cut)]) == set()


def test_what_a_read_says_about_itself_is_no_line_of_the_file() -> None:
    call, output = read("1", 3, 9)
    with_note = ToolOutput("1", output.text + "\n[lines 3-9 of 80; read on with offset=10]")
    assert find_line_range(call, with_note) == FileLineRange("a.py", 3, 9)


@given(st.text(), st.sampled_from(["read", "write", "bash"]))
def test_any_output_is_looked_at_without_an_error(text: str, name: str) -> None:
    call = ToolCall("1", name, {"path": "a.py"})
    viewed = find_line_range(call, ToolOutput("1", text))
    assert viewed is None or viewed.first_line <= viewed.last_line


@given(st.lists(st.tuples(st.integers(1, 30), st.integers(0, 30), st.sampled_from("ab")), max_size=8))
def test_every_superseded_line_is_shown_again_later(reads: list[tuple[int, int, str]]) -> None:
    seen = [read(str(n), first, first + more, path) for n, (first, more, path) in enumerate(reads)]
    views = [find_line_range(call, output) for call, output in seen]
    stale = repeated(seen)
    for n, view in enumerate(views):
        assert view is not None
        covered = any(newer is not None and newer.covers(view) for newer in views[n + 1 :])
        assert (str(n) in stale) == covered


def test_a_superseded_read_is_masked_though_it_is_new() -> None:
    (one, first), (two, second), (three, third) = read("1", 1, 50), read("2", 1, 50), read("3", 1, 3, "b.py")
    conversation = Conversation(
        (Assistant((one,)), User((first,)), Assistant((two,)), User((second,)), Assistant((three,)), User((third,)))
    )
    assert mask_outputs(conversation, 24_000).masked == {"1"}
