"""How a room that is too small is divided. Pure."""

from collections.abc import Sequence


def shares(sizes: Sequence[int], room: int) -> tuple[int, ...]:
    """The part of the room that each of these sizes gets: a small one all that it takes, and the large ones the same
    part each of what the small ones leave."""
    left, parts = max(room, 0), list(sizes)
    by_size = sorted(range(len(sizes)), key=lambda index: sizes[index])
    for passed, index in enumerate(by_size):
        parts[index] = min(sizes[index], left // (len(by_size) - passed))
        left -= parts[index]
    return tuple(parts)
