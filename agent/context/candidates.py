"""Which model is asked for summaries, when the user leaves the choice to measurement. Pure: facts in, an order out."""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model that could write summaries, with what is known of it."""

    model: str
    """`provider/name`."""
    seconds: float | None
    """How long it took to answer a short question; None when it did not."""
    window: int
    price: float | None = None
    """US dollars per million tokens of input; None when it is not known."""


SMALLEST = 16_000
"""A window below this would cut a conversation into too many pieces."""


def fastest_first(candidates: Sequence[Candidate]) -> tuple[str, ...]:
    """The models that answered and can hold a conversation, the fastest first; of two that are equally fast the cheaper
    one. A model without a price comes after those with one."""
    usable = [found for found in candidates if found.seconds is not None and found.window >= SMALLEST]
    order = sorted(usable, key=lambda found: (found.seconds, found.price is None, found.price or 0.0, found.model))
    return tuple(dict.fromkeys(found.model for found in order))
