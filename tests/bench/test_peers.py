"""Each peer's own rules on made-up recordings: when it rewrites its history, what that takes, and what remains."""

from collections.abc import Mapping

import pytest

from bench.context.billing import RATES, Rates
from bench.context.model import BilledRequest
from bench.context.peers import PEERS
from bench.context.peers.driver import PeerSession, peer_tools
from bench.context.peers.history import stand_in
from bench.context.play import SYSTEM_TOKENS, TOOL_TOKENS, play_as_peer, run_peer
from bench.context.policies import play_policy
from bench.context.recordings import Kind, RecordedCall, RecordedStep, Recording
from bench.context.replay import PLACEHOLDER_SUMMARY, RecordedModel, replay_as_peer
from bench.context.workload import HEAVY, TOKENS_PER_BYTE, prose

STEP_TOKENS = 3_000
"""Tokens of each output."""


def output_of(number: int, size: int = int(STEP_TOKENS / TOKENS_PER_BYTE)) -> str:
    """An output that starts and ends with a name of its own."""
    return f"first_{number}_name\n{prose(number, size - 40)}\nlast_{number}_name"


def make_recording(
    steps: int, *, turn: int = 10_000, kind: Kind = "bash", gap: float = 1.0, outputs: Mapping[int, str] | None = None
) -> Recording:
    """A recording whose every step runs one call. `turn`: steps between two user messages."""
    found: list[RecordedStep] = []
    for number in range(steps):
        arguments: Mapping[str, object] = {"path": f"src/file_{number}.py"} if kind == "read" else {"command": "make"}
        output = (outputs or {}).get(number, output_of(number))
        call = RecordedCall(f"call-{number}", kind, kind, arguments, output)
        texts = (f"please do part {number}",) if number % turn == 0 else ()
        ends = (number + 1) % turn == 0 or number + 1 == steps
        found.append(RecordedStep(texts, number * gap, f"step {number}", 0, (call,)))
        if ends:
            found.append(RecordedStep((), number * gap + 0.5, f"done {number}", 0, ()))
    return Recording("made up", "made up", "Claude Code", tuple(found))


def play_recording(name: str, recording: Recording, window: int = 200_000, rates: Rates | None = None) -> RecordedModel:
    model = RecordedModel(recording=recording, size=window, rates=rates or Rates())
    run_peer(model, ["bash", "read"], name)
    return model


def text_of(request: BilledRequest) -> str:
    return "\n".join(block.text for block in request.blocks)


def around_first_summary(model: RecordedModel) -> tuple[BilledRequest, list[BilledRequest], BilledRequest]:
    """The step before the first summary, the requests for it, and the step after it."""
    asked = model.billed_requests
    first = next(at for at, one in enumerate(asked) if one.purpose == "summary")
    after = next(at for at in range(first, len(asked)) if asked[at].purpose == "step")
    return asked[first - 1], asked[first:after], asked[after]


@pytest.mark.parametrize(
    ("name", "window", "threshold"),
    [
        ("Claude Code", 200_000, 167_000),
        ("Claude Code", 100_000, 67_000),
        ("Codex", 200_000, 180_000),
        ("opencode", 200_000, 168_000),
        ("crush", 200_000, 160_000),
        ("crush", 210_000, 190_000),
        ("pi", 200_000, 200_000 - 16_384),
        ("Gemini CLI", 200_000, 100_000),
        ("Kimi Code", 200_000, 150_000),
        ("Kimi CLI", 100_000, 50_000),
        ("summary at 80 %", 200_000, 160_000),
    ],
)
def test_a_peer_summarises_at_its_own_threshold(name: str, window: int, threshold: int) -> None:
    """Two steps are the tolerance: some count the last output, and some no tokens written to the cache."""
    before, requests, after = around_first_summary(play_recording(name, make_recording(70, turn=5), window))
    assert threshold - 2.2 * STEP_TOKENS <= before.usage.prompt <= threshold + 2.2 * STEP_TOKENS
    assert after.usage.prompt < 0.8 * before.usage.prompt
    assert PLACEHOLDER_SUMMARY in text_of(after)
    assert len(requests) == {"Gemini CLI": 2, "pi": 2}.get(name, 1)


@pytest.mark.parametrize("name", ["Claude Code", "Codex", "Kimi Code", "summary at 80 %"])
def test_a_summary_that_continues_the_conversation_is_read_from_the_cache(name: str) -> None:
    before, (request,), _ = around_first_summary(play_recording(name, make_recording(70, turn=5)))
    assert request.blocks[:3] == before.blocks[:3], "the same tools and system prompt"
    assert request.usage.cache_read >= before.usage.prompt - STEP_TOKENS
    assert "last_3_name" in text_of(request)


@pytest.mark.parametrize(("name", "price"), [("opencode", "write"), ("Kimi CLI", "write"), ("pi", "input")])
def test_a_summary_of_quoted_text_reads_nothing_from_the_cache(name: str, price: str) -> None:
    _, requests, _ = around_first_summary(play_recording(name, make_recording(70, turn=5)))
    request = requests[0]
    assert (request.usage.cache_read, len(request.blocks)) == (0, 2)
    assert (request.usage.cache_write > 0, request.usage.input > 0) == (price == "write", price == "input")
    quotes_all = name == "Kimi CLI"
    assert ("first_3_name" in text_of(request), "last_3_name" in text_of(request)) == (True, quotes_all)
    assert (request.usage.prompt > 100_000) == quotes_all


def test_crush_sends_everything_uncached_with_another_system_prompt_and_keeps_only_the_summary() -> None:
    before, (request,), after = around_first_summary(play_recording("crush", make_recording(70)))
    assert (request.usage.cache_read, request.usage.cache_write) == (0, 0)
    assert before.usage.prompt - TOOL_TOKENS - SYSTEM_TOKENS < request.usage.input < before.usage.prompt
    assert "last_3_name" in text_of(request)
    kept = text_of(after)
    assert "the user's request was: `please do part 0`" in kept.lower()
    assert "_name" not in kept.replace(PLACEHOLDER_SUMMARY, "").partition("<retain>")[0]
    assert after.usage.prompt < SYSTEM_TOKENS + TOOL_TOKENS + 3_000


def test_crush_does_not_count_what_was_written_to_the_cache() -> None:
    """If the cache has expired before each request, everything is written and the threshold is never reached."""
    timely, late = [play_recording("crush", make_recording(58, gap=gap)).billed_requests for gap in (1, 400)]
    assert "summary" in {one.purpose for one in timely}
    assert {one.purpose for one in late} == {"step"}
    assert late[-1].usage.prompt > 180_000


def test_claude_code_attaches_the_files_that_were_read_last() -> None:
    large = "\n".join(f"wide_{number}_value = {number}" for number in range(1_500))
    recording = make_recording(60, kind="read", outputs={number: large for number in range(2, 60, 2)})
    _, _, after = around_first_summary(play_recording("Claude Code", recording))
    text = text_of(after)
    attached = [number for number in range(60) if f"last_{number}_name" in text]
    assert len(attached) == 3
    assert text.count("was read before, but is too large to include") == 2
    assert "wide_700_value" not in text
    assert after.usage.prompt < SYSTEM_TOKENS + TOOL_TOKENS + 3 * 1.3 * STEP_TOKENS + 4_000


def test_claude_code_clears_old_outputs_after_an_hour() -> None:
    steps = [*make_recording(20).steps, RecordedStep(("go on",), 4_000, "yes", 0, ())]
    late = play_recording("Claude Code", Recording("late", "", "", tuple(steps))).billed_requests[-1]
    assert [f"last_{number}_name" in text_of(late) for number in range(20)] == [False] * 15 + [True] * 5
    steps[-1] = RecordedStep(("go on",), 3_000, "yes", 0, ())
    soon = play_recording("Claude Code", Recording("soon", "", "", tuple(steps))).billed_requests[-1]
    assert "last_0_name" in text_of(soon)


def test_codex_and_kimi_code_keep_what_the_user_said() -> None:
    for name in ("Codex", "Kimi Code"):
        _, _, after = around_first_summary(play_recording(name, make_recording(70, turn=5)))
        said = [number for number in range(0, 70, 5) if f"please do part {number}" in text_of(after)]
        assert said[:6] == [0, 5, 10, 15, 20, 25]
        assert not any(f"last_{number}_name\\n" in text_of(after) for number in range(70))


def test_opencode_keeps_a_tail_of_15_000_tokens_and_asks_to_continue() -> None:
    """Its tokens are four characters, ours 3.1 bytes."""
    _, _, after = around_first_summary(play_recording("opencode", make_recording(70)))
    text = text_of(after)
    kept = [number for number in range(70) if f"last_{number}_name" in text]
    assert kept == list(range(kept[0], kept[0] + 6))
    assert text.index("What did we do so far?") < text.index(PLACEHOLDER_SUMMARY) < text.index("Continue if you have")


def test_pi_keeps_the_cache_of_a_large_context_alive_while_tools_run() -> None:
    """At 50,000 tokens this pays within a turn, where the next request is certain, and not while the user thinks."""
    steps = [
        *make_recording(12).steps[:-1],
        RecordedStep((), 611, "so", 0, (RecordedCall("x", "bash", "bash", {}, "ok"),)),
    ]
    end = RecordedStep((), 1_800, "done", 0, ())
    within = play_recording("pi", Recording("within", "", "", (*steps, end)))
    assert [one.sent_at for one in within.billed_requests if one.purpose == "keep-alive"] == [
        *(11 + 270 * count for count in (1, 2)),
        *(611 + 270 * count for count in (1, 2, 3, 4)),
    ]
    assert within.billed_requests[-1].usage.cache_read > 30_000
    thinking = [*make_recording(12).steps, RecordedStep(("go on",), 611, "yes", 0, ())]
    assert "keep-alive" not in [
        one.purpose for one in play_recording("pi", Recording("thinks", "", "", tuple(thinking))).billed_requests
    ]


def test_gemini_cli_masks_old_outputs_in_one_long_turn_and_never_splits_it() -> None:
    asked = play_recording("Gemini CLI", make_recording(60), 1_000_000).billed_requests
    assert {one.purpose for one in asked} == {"step"}
    masked = next(at for at, one in enumerate(asked) if "tool_output_masked" in text_of(one))
    assert 85_000 < asked[masked - 1].usage.prompt - SYSTEM_TOKENS - TOOL_TOKENS < 125_000
    text = text_of(asked[masked])
    assert "first_0_name" in text
    assert asked[masked].usage.prompt < asked[masked - 1].usage.prompt - 30_000


def test_context_editing_keeps_three_outputs_above_100_000_tokens_and_never_summarises() -> None:
    asked = play_recording("Anthropic's context editing", make_recording(50)).billed_requests
    cleared = next(at for at, one in enumerate(asked) if "[cleared to save context]" in text_of(one))
    assert abs(asked[cleared - 1].usage.prompt + STEP_TOKENS - 100_000) < 2 * STEP_TOKENS
    for at in (cleared, cleared + 1, cleared + 4):
        shown = [number for number in range(50) if f"last_{number}_name" in text_of(asked[at])]
        assert shown == list(range(at - 3, at))
    assert {one.purpose for one in asked} == {"step"}


@pytest.mark.parametrize(
    ("name", "kind", "shown"),
    [
        ("Claude Code", "bash", (True, False, True, 30_000)),
        ("Codex", "bash", (True, False, True, 40_000)),
        ("opencode", "bash", (False, False, True, 51_200)),
        ("opencode", "read", (True, False, False, 51_200)),
        ("crush", "bash", (True, False, True, 30_000)),
        ("pi", "bash", (False, False, True, 51_200)),
        ("Gemini CLI", "bash", (True, False, True, 40_000)),
        ("Kimi Code", "bash", (True, False, False, 2_000)),
        ("Kimi CLI", "bash", (True, False, False, 50_000)),
        ("never", "bash", (True, True, True, 120_000)),
    ],
)
def test_a_peer_cuts_large_outputs_when_they_arrive(name: str, kind: Kind, shown: tuple[bool, bool, bool, int]) -> None:
    half = 60_000
    text = f"first_name\n{prose(1, half)}\nmiddle_name\n{prose(2, half)}\nlast_name"
    output = RecordedCall("1", kind, kind, {}, text)
    found = PEERS[name].show_output(output)
    *parts, size = shown
    assert [part in found for part in ("first_name", "middle_name", "last_name")] == parts
    assert size - 200 < len(found) < size + 200


def test_crush_shows_200_lines_of_a_file_unless_more_are_asked_for() -> None:
    text = "".join(f"{number}\tline\n" for number in range(1_000))
    short = RecordedCall("1", "read", "read", {"path": "a"}, text)
    long = RecordedCall("1", "read", "read", {"path": "a", "limit": 500}, text)
    assert [PEERS["crush"].show_output(one).count("\tline") for one in (short, long)] == [200, 500]


def test_a_session_that_no_rule_can_shorten_loses_its_oldest_messages() -> None:
    """Gemini CLI cannot split a turn whose user messages are at its start."""
    outputs = {number: "x" * 39_000 for number in range(40)}
    model = play_recording("Gemini CLI", make_recording(40, kind="edit", outputs=outputs), 100_000)
    assert max(one.usage.prompt for one in model.billed_requests) <= 100_000
    assert model.step_count == 41


def test_every_peer_plays_with_the_same_system_prompt_and_tools() -> None:
    sizes = {play_recording(name, make_recording(2)).billed_requests[0].usage.prompt for name in PEERS}
    assert len(sizes) == 1
    assert abs(sizes.pop() - SYSTEM_TOKENS - TOOL_TOKENS) < 300


def test_planned_sessions_are_played_by_peers() -> None:
    run = play_as_peer(0, 100, HEAVY, 200_000, "Claude Code")
    assert (run.summaries, run.rewrites, run.drift) == (1, 1, 0)
    assert 0.7 < run.peak < 0.95
    assert run.again >= 3, "files are read again after a summary"
    assert play_policy("Claude Code", 0, 100, "heavy", 200_000) == run
    assert play_as_peer(0, 100, HEAVY, 200_000, "never").rewrites == 0


def test_automatic_caches_need_no_breakpoints_and_prices_count() -> None:
    recording = make_recording(30)
    by_price = {name: replay_as_peer(recording, 200_000, "crush", rates) for name, rates in RATES.items()}
    assert by_price["local"].costs.cached > 0.9
    assert by_price["anthropic-1h"].costs.cost > by_price["anthropic"].costs.cost > by_price["openai"].costs.cost
    request = around_first_summary(play_recording("crush", make_recording(70), rates=RATES["openai"]))[1][0]
    assert request.usage.cache_read == 0, "another system prompt shares no prefix"
    follow_up = around_first_summary(play_recording("Gemini CLI", make_recording(70, turn=5), rates=RATES["gemini"]))[
        1
    ][1]
    assert follow_up.usage.cache_read > 0.9 * follow_up.usage.prompt


def test_a_peer_session_reports_rewrites_and_those_of_an_expired_cache() -> None:
    steps = [*make_recording(20).steps, RecordedStep(("go on",), 4_000, "yes", 0, ())]
    model = RecordedModel(recording=Recording("late", "", "", tuple(steps)))
    session = PeerSession(model, PEERS["Claude Code"], peer_tools(["bash"], TOOL_TOKENS), stand_in(400))
    session.play()
    assert (len(session.rewritten_before), session.cold) == (1, 1)
