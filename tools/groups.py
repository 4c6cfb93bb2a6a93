"""Process groups. A group's number is that of the process that it began with."""

import os


def signal_group(group: int, number: int, is_reaped: bool) -> bool:
    """Whether there was anybody in the group to take the signal; 0 only asks. `is_reaped`: whether the process that it
    began with has been waited for, so that its number may belong to somebody else by now."""
    if is_reaped and exists(group):
        return False
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def exists(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
