"""The price of one summary in a planned session."""

from bench.context.summary import MAX_COST_SHARE, measure_summary


async def test_a_summary_reads_the_conversation_from_the_cache() -> None:
    done = await measure_summary(1, "light", 120_000)
    assert done.usage.cache_read > 0.99 * done.usage.prompt
    assert done.share <= MAX_COST_SHARE
