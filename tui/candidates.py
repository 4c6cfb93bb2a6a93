"""What a text in the prompt may become, as a value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Candidate:
    insert: str
    """What the prompt holds once the candidate is taken."""
    label: str
    help: str
    final: bool = True
    """Nothing has to follow: Enter takes the candidate and sends it."""
    behind: str = ""
    """What the prompt holds behind the cursor then."""
