"""Times on the command line: an age or a day."""

import re
import time
from datetime import datetime

from ebbtide.agent.errors import UsageError

_UNIT_SECONDS = {"h": 3_600, "d": 86_400, "w": 7 * 86_400, "mo": 30 * 86_400, "y": 365 * 86_400}
_AGE = re.compile(r"(\d{1,6})\s*(h|d|w|mo|y)")


def parse_time_argument(text: str) -> float:
    """Convert an age (`30d`, `12h`, `2w`, `6mo`, `1y`) or the local start of a day (`2026-01-31`) to Unix seconds.
    Raises `UsageError`."""
    match = _AGE.fullmatch(text.strip().lower())
    if match is not None:
        return time.time() - int(match[1]) * _UNIT_SECONDS[match[2]]
    try:
        return datetime.strptime(text.strip(), "%Y-%m-%d").timestamp()
    except (ValueError, OverflowError, OSError) as error:
        raise UsageError(
            f"`{text}` is not a time; write an age such as `30d`, `12h`, `2w`, `6mo` or `1y`, or a day such as "
            "`2026-01-31`"
        ) from error
