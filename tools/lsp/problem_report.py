"""What is told with a change of a file, found again in an output. Pure."""

NEW_PROBLEMS = "New problems since this change:"


def told_problems(text: str) -> str:
    """The problems that an output tells of besides what was done; empty where it tells of none."""
    _, head, problems = text.partition(f"\n{NEW_PROBLEMS}\n")
    return problems if head else ""


def count_of_problems(text: str) -> int:
    """How many that are, those that are only counted among them."""
    lines = told_problems(text).splitlines()
    more = lines.pop() if lines and lines[-1].startswith("and ") and lines[-1].endswith(" more") else ""
    return len(lines) + sum(int(word.replace(",", "")) for word in more.split() if word[0].isdigit())
