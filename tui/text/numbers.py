"""Formats numbers: tokens, dollars, times and sizes."""


def format_tokens(count: int) -> str:
    """Format a token count: `950`, `12.3k`, `1.2M`."""
    if count < 1_000:
        return str(count)
    if count < 999_500:
        return f"{count / 1_000:.1f}k" if count < 99_950 else f"{count / 1_000:.0f}k"
    return f"{count / 1_000_000:.1f}M"


def format_dollars(cost: float | None) -> str:
    """Format an amount with two decimals, or four if it is below ten cents. None gives "unknown"."""
    if cost is None:
        return "unknown"
    return f"${cost:.4f}" if 0 < cost < 0.1 else f"${cost:.2f}"


def format_duration(seconds: int) -> str:
    """Format a duration: `42s`, `3m 05s`."""
    return f"{seconds}s" if seconds < 60 else f"{seconds // 60}m {seconds % 60:02}s"


def format_age(elapsed_seconds: float) -> str:
    """Format an age in the largest suitable unit: `5 min ago`, `2 d ago`; `now` below a minute."""
    for unit_seconds, unit in ((86_400 * 7, "w"), (86_400, "d"), (3_600, "h"), (60, "min")):
        if elapsed_seconds >= unit_seconds:
            return f"{int(elapsed_seconds // unit_seconds)} {unit} ago"
    return "now"


def format_size(byte_count: int) -> str:
    """Format a size in bytes: `950 B`, `12.3 kB`, `1.2 GB`."""
    if byte_count < 1_000:
        return f"{byte_count} B"
    amount = float(byte_count)
    for unit in ("kB", "MB"):
        amount /= 1_000
        if amount < 999.95:
            return f"{amount:.1f} {unit}"
    return f"{amount / 1_000:.1f} GB"
