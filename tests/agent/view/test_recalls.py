"""What the model brings back of what was cut or masked, and what a session learns from that."""

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.agent.budget.prices import UnitPrices
from ebbtide.agent.eviction.carrying_costs import mask_by_keys, mask_offer
from ebbtide.agent.eviction.inventory import MeasurementCache
from ebbtide.agent.eviction.settings import CompactionCaps, RewritePatience
from ebbtide.agent.messages import (
    Assistant,
    Conversation,
    OutputStatus,
    Recalls,
    StoredBlob,
    Text,
    ToolCall,
    ToolOutput,
    User,
)
from ebbtide.agent.view.recalls import (
    MAX_REUSE_FACTOR,
    REUSE_ODDS,
    add_outputs,
    reuse_factors,
    with_removed_outputs,
)
from ebbtide.tools.tool_traits import OutputContent

CONTENTS: tuple[OutputContent, ...] = get_args(OutputContent)
LONG = "x" * 10_000


def step(
    conversation: Conversation, tool: str, arguments: dict[str, object], text: str = LONG, **more: object
) -> Conversation:
    """The conversation after one more call, as a turn goes on with it."""
    call = ToolCall(f"c{len(conversation.messages)}", tool, arguments)
    output = replace(ToolOutput(call.id, text), **more)  # type: ignore[arg-type]  # by name
    return add_outputs(conversation.plus(Assistant((call,))), User((output,)))


def ran(conversation: Conversation, **more: object) -> Conversation:
    return step(conversation, "bash", {"command": "make"}, **more)  # type: ignore[arg-type]  # as above


def recalled(conversation: Conversation, ref: str, tool: str = "recall") -> Conversation:
    return step(conversation, tool, {"ref_id": ref}, "found")


BEGUN = Conversation((User((Text("go"),)),))
HALF = mask_by_keys(ran(ran(BEGUN)), {"r1"})
"""Two commands, of which the first is masked."""


def due(conversation: Conversation, later: int, tool: str, command: str) -> frozenset[str]:
    """What may leave once so many steps have followed a long output of such a call."""
    then = step(conversation, tool, {"command": command, "path": "a.py"})
    for _ in range(later):
        then = step(then, "bash", {"command": "true"}, "fine")
    return mask_offer(
        then, CompactionCaps(protected_output_tokens=0), 60_000, 20_000, UnitPrices(), RewritePatience(recall=5.0)
    ).keys


def first_due(conversation: Conversation, tool: str, command: str = "") -> int:
    """Steps after which a long output of such a call may leave."""
    ref = f"r{sum(isinstance(message, User) for message in conversation.messages)}"
    return next(later for later in range(200) if ref in due(conversation, later, tool, command))


def test_after_a_recall_of_a_commands_output_those_of_the_next_commands_leave_later() -> None:
    silent = step(HALF, "recall", {"query": "nothing"}, "nothing was found: try other words, or fewer filters")
    taught = recalled(HALF, "r1")

    assert (silent.recalls, taught.recalls) == (Recalls({"program": 1}), Recalls({"program": 1}, {"r1": "program"}))
    assert first_due(silent, "bash", "make") < first_due(taught, "bash", "make")
    for tool, command in (("read", ""), ("grep", ""), ("bash", "cat a.py")):
        assert first_due(silent, tool, command) == first_due(taught, tool, command), "another kind is as before"


@pytest.mark.parametrize(
    ("tool", "arguments", "text", "status", "back"),
    [
        ("recall", {"ref_id": "r1"}, "", "done", {"r1"}),
        ("recall", {"ref_id": "[recall:r1]", "search": "error"}, "", "done", {"r1"}),
        ("read_result", {"ref_id": "r1:L50-60"}, "", "done", {"r1"}),
        ("tool_output_cache", {"ref_id": "r1"}, "", "done", {"r1"}),
        ("call_tool", {"name": "recall", "arguments": {"ref_id": "r1"}}, "", "done", {"r1"}),
        ("recall", {"query": "make"}, "(a note)\n[recall:r1] output of bash\n  x\n[recall:r2] x", "done", {"r1"}),
        ("recall", {"query": "make"}, "[recall:r2] output of bash\n  x\n[recall:r1] x", "done", set()),
        ("recall", {"query": "make"}, "nothing was found", "done", set()),
        ("recall", {"ref_id": "r1"}, "", "failed", set()),
        ("recall", {"ref_id": "r2"}, "", "done", set()),
        ("recall", {"ref_id": "r99"}, "", "done", set()),
        ("recall", {"ref_id": "ebb://other/aa11/r1"}, "", "done", set()),
        ("recall", {"ref_id": "msg-aa11"}, "", "done", set()),
        ("recall", {"ref_id": "what"}, "", "done", set()),
        ("recall", {"ref_id": 1}, "", "done", set()),
        ("bash", {"ref_id": "r1"}, "", "done", set()),
    ],
)
def test_what_counts_is_a_call_that_brought_back_what_was_masked(
    tool: str, arguments: dict[str, object], text: str, status: OutputStatus, back: set[str]
) -> None:
    assert step(HALF, tool, arguments, text, status=status).recalls.back.keys() == back


def test_what_was_cut_counts_when_it_is_read_on_and_what_is_brought_back_twice_counts_once() -> None:
    cut = ran(BEGUN, stored=StoredBlob("aa", 90_000, 900))
    once = recalled(cut, "r1", "read_result")

    assert once.recalls == Recalls({"program": 1}, {"r1": "program"})
    assert recalled(recalled(once, "r1:L9-", "read_result"), "r1").recalls == once.recalls
    assert mask_by_keys(once, {"r1"}).recalls == once.recalls, "it had left before"


def test_one_that_is_masked_again_or_not_at_all_does_not_count_as_another_that_left() -> None:
    assert HALF.recalls == Recalls({"program": 1})
    assert mask_by_keys(HALF, {"r1", "r9"}) == HALF
    assert mask_by_keys(HALF, {"r1", "r2"}).recalls == Recalls({"program": 2})


def test_a_kind_of_which_much_left_and_little_was_wanted_is_as_the_odds_say() -> None:
    few, many = (Recalls({"file": left}, {"r1": "file"}) for left in (4, 40))
    assert reuse_factors(few) == {"file": 2 / 1.4}
    assert reuse_factors(many) == {}


@given(
    st.lists(st.tuples(st.sampled_from(CONTENTS), st.booleans()), max_size=80),
)
def test_whatever_was_brought_back_a_guess_is_raised_within_bounds(
    left: list[tuple[str, bool]],
) -> None:
    recalls = with_removed_outputs(Recalls(), (one for one, _ in left))
    back = {f"r{number}": one for number, (one, is_back) in enumerate(left) if is_back}
    recalls = replace(recalls, back=back)

    assert sum(recalls.left.values()) == len(left)
    assert all(1 < times <= MAX_REUSE_FACTOR for times in reuse_factors(recalls).values())
    assert reuse_factors(recalls).keys() <= set(back.values())


@given(st.lists(st.sampled_from(["make", "cat a.py", "read", "grep", "mask", "recall", "recall all"]), max_size=25))
def test_in_any_session_an_output_is_as_likely_wanted_as_by_the_odds_or_more(does: list[str]) -> None:
    now = BEGUN
    for number, what in enumerate(does):
        refs = [f"r{one}" for one in range(1, number + 1)]
        match what:
            case "mask":
                now = mask_by_keys(now, set(refs[:-1]))
            case "recall":
                now = recalled(now, "r1")
            case "recall all":
                for ref in refs:
                    now = recalled(now, ref)
            case "read" | "grep":
                now = step(now, what, {"path": f"{number}.py", "pattern": "x"})
            case command:
                now = step(now, "bash", {"command": command})

    stock = MeasurementCache().measure(now)
    for item in stock.items:
        usual = REUSE_ODDS.probability(item.content, item.tokens, stock.replies_since(item))
        assert usual <= stock.reread_probability(item) <= min(MAX_REUSE_FACTOR * usual, 1.0)
