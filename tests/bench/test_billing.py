"""What the benchmarks' provider bills: by prefix, breakpoint and time."""

from itertools import groupby

import pytest

from bench.context.billing import LOOK_BACK_BLOCKS, BlockReader, Cache, Rates, RequestBlock, common_prefix
from bench.context.play import PolicySettings, play, play_as_peer
from bench.context.workload import CODEX, HEAVY, LIGHT, REAL, plan_session, prose
from ebbtide.agent.messages import Usage

LONG = "x" * 4000
TOKENS = 1300


def block(text: str = LONG, *, marked: bool = False) -> RequestBlock:
    return RequestBlock(text, marked)


def test_what_was_marked_is_read_the_next_time() -> None:
    cache = Cache(300)
    assert cache.bill([block(), block(marked=True)], 0) == Usage(0, 0, 2 * TOKENS, 0)
    assert cache.bill([block(), block(), block(marked=True)], 1, 7) == Usage(0, 2 * TOKENS, TOKENS, 7)


def test_what_comes_after_the_last_mark_is_fresh() -> None:
    assert Cache(300).bill([block(marked=True), block()], 0) == Usage(TOKENS, 0, TOKENS, 0)
    assert Cache(300).bill([block(), block()], 0) == Usage(2 * TOKENS)
    assert Cache(300).bill([], 0) == Usage()


def test_one_changed_byte_costs_all_that_comes_after_it() -> None:
    cache = Cache(300)
    cache.bill([block(), block(marked=True), block(), block(marked=True)], 0)
    again = cache.bill([block(), block(marked=True), block("y" * 4000), block(marked=True)], 1)
    assert again == Usage(0, 2 * TOKENS, 2 * TOKENS)


def test_a_prefix_that_was_not_used_for_long_is_forgotten_and_use_keeps_it() -> None:
    cache = Cache(300)
    cache.bill([block(marked=True)], 0)
    assert cache.bill([block(marked=True)], 299).cache_read == TOKENS
    assert cache.bill([block(marked=True)], 598).cache_read == TOKENS
    assert cache.bill([block(marked=True)], 898).cache_read == 0


def test_a_mark_looks_back_over_twenty_blocks_and_no_further() -> None:
    for between, hit in ((LOOK_BACK_BLOCKS - 2, True), (LOOK_BACK_BLOCKS - 1, True), (LOOK_BACK_BLOCKS, False)):
        cache = Cache(300)
        cache.bill([block(marked=True)], 0)
        request = [block(), *[block("b")] * (between - 1), block("b", marked=True)]
        assert bool(cache.bill(request, 1).cache_read) == hit


def test_a_short_prefix_is_not_cached() -> None:
    cache = Cache(300)
    cache.bill([block("short", marked=True)], 0)
    assert cache.bill([block("short", marked=True)], 1).cache_read == 0


def test_a_body_is_cached_in_the_order_of_tools_system_and_messages() -> None:
    mark = {"cache_control": {"type": "ephemeral"}}
    body = {
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi", **mark}]}],
        "system": [{"type": "text", "text": "be brief"}],
        "tools": [{"name": "read"}],
    }
    blocks = BlockReader().blocks_of(body)
    assert [found.has_breakpoint for found in blocks] == [False, False, True]
    assert ["read" in blocks[0].text, "be brief" in blocks[1].text, "cache_control" in blocks[2].text] == [
        True,
        True,
        False,
    ]


def test_what_two_bodies_share_is_read_once_and_what_differs_is_seen() -> None:
    reader, shared = BlockReader(), {"type": "text", "text": "hi"}
    one = reader.blocks_of({"messages": [{"role": "user", "content": [shared]}]})
    two = reader.blocks_of({"messages": [{"role": "user", "content": [shared, {"type": "text", "text": "ho"}]}]})
    other = reader.blocks_of({"messages": [{"role": "assistant", "content": [shared]}]})
    assert (one[0] is two[0], two[1].visible_text, other[0] == one[0]) == (True, "ho", False)


def test_prefixes_are_compared_without_their_marks() -> None:
    assert common_prefix([block("a"), block("b")], [block("a", marked=True), block("c")]) == 1


def test_costs_are_in_tokens_of_fresh_input() -> None:
    assert Rates().cost(Usage(10, 100, 100, 10)) == 10 + 10 + 125 + 50


def test_plans_repeat_and_have_the_sizes_of_their_mixture() -> None:
    assert plan_session(1, 50, LIGHT) == plan_session(1, 50, LIGHT) != plan_session(2, 50, LIGHT)
    sizes = {}
    for name, mix in (("light", LIGHT), ("heavy", HEAVY)):
        outputs = sorted(
            o.size for seed in range(20) for planned in plan_session(seed, 300, mix) for o in planned.outputs
        )
        sizes[name] = (outputs[len(outputs) // 2], sum(outputs) / len(outputs))
    assert 130 < sizes["light"][0] < 200
    assert 1_000 < sizes["light"][1] < 1_900
    assert 3_500 < sizes["heavy"][1] < 6_000
    assert plan_session(1, 50, LIGHT)[0].message_tokens > 0


def test_recorded_mixtures_have_the_turns_and_pauses_of_the_recordings() -> None:
    planned = [one for seed in range(60) for one in plan_session(seed, 300, REAL)]
    outputs = [output for one in planned for output in one.outputs]
    shares = {tool: sum(one.tool == tool for one in outputs) / len(outputs) for tool in REAL.tools}
    assert shares == {tool: pytest.approx(sizes.share, abs=0.02) for tool, sizes in REAL.tools.items()}
    bash = sorted(one.size for one in outputs if one.tool == "bash")
    assert bash[len(bash) // 2] == pytest.approx(305, rel=0.1)
    pauses = sorted(one.gap for one in planned if one.message_tokens)
    assert sum(gap > 300 for gap in pauses) / len(pauses) == pytest.approx(0.28, abs=0.03)
    assert pauses[int(0.9 * len(pauses))] == pytest.approx(930, rel=0.15)
    waits = [one.gap for one in planned if not one.message_tokens]
    assert sum(gap >= 300 for gap in waits) / len(waits) == pytest.approx(0.01, abs=0.004)
    turns = sorted(
        len(list(turn)) + 1 for goes_on, turn in groupby(planned, lambda one: not one.message_tokens) if goes_on
    )
    assert 5 <= turns[len(turns) // 2] <= 9, "of those with more than one request"
    assert (
        sum(one.tool == "bash" for seed in range(9) for p in plan_session(seed, 99, CODEX) for one in p.outputs) > 900
    )


async def test_a_session_like_the_recorded_ones_costs_less_than_under_another_policy() -> None:
    ours = await play(1, 120, REAL, 200_000)
    theirs = play_as_peer(1, 120, REAL, 200_000, "Claude Code")
    assert ours.cost < 0.9 * theirs.cost
    assert (ours.drift, theirs.drift) == (0, 0)


async def test_a_planned_session_tells_what_pauses_cost_and_what_keeping_the_cache_saves() -> None:
    usual = await play(1, 60, REAL, 200_000)
    renewed = await play(1, 60, REAL, 200_000, PolicySettings(keep_alive=3))
    assert usual.cached < usual.unpaused
    assert (usual.keep_alives, usual.drift, renewed.drift) == (0, 0, 0)
    assert renewed.keep_alives > 0
    assert renewed.cost < usual.cost


def test_prose_has_the_bytes_it_was_asked_for() -> None:
    assert [len(prose(3, size)) for size in (0, 1, 5000)] == [0, 1, 5000]


def test_a_provider_that_caches_automatically_needs_no_marks() -> None:
    cache = Cache(300, is_automatic=True)
    assert cache.bill([block(), block()], 0) == Usage(0, 0, 2 * TOKENS)
    assert cache.bill([block(), block(), block()], 1) == Usage(0, 2 * TOKENS, TOKENS)
    assert cache.bill([block(), *[block("b")] * 30], 2).cache_read == TOKENS
