"""Compares semantic search with word search for paraphrased queries: a small labelled set among the paragraphs of this
project's documents.

    python -m bench.context.meaning FOLDER"""

import asyncio
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from ebbtide.agent.archive.archive import Archive
from ebbtide.agent.archive.recall import SessionRecall
from ebbtide.agent.messages import Conversation, Text, User
from ebbtide.agent.records.message_rows import encode_message
from ebbtide.agent.records.rows import encode_snapshot
from ebbtide.agent.records.store_thread import StoreThread
from ebbtide.store.session_rows import SessionRow, SnapshotRow
from ebbtide.store.sessions import SessionStore
from ebbtide.tools.outputs.recall_results import RecallQuery

PARAPHRASED_QUERIES = (
    ("the login page hangs when the token has run out", "users cannot sign in after their session expires"),
    ("we agreed to keep five attempts before giving up on a request", "how many times do we retry"),
    ("deploy only from the main branch, and never on Fridays", "release rules"),
    ("the importer dies with a memory error on the big csv", "loading large spreadsheets crashes"),
    ("prices are stored in cents to avoid rounding", "why is money kept as integers"),
    ("the nightly job deletes rows older than ninety days", "how long is data retained"),
    ("pytest takes eleven minutes, most of it in the browser suite", "tests are slow"),
    ("I replaced the regex with a hand-written parser", "rewriting how text is tokenised"),
    ("the cache must be emptied whenever a user changes roles", "stale permissions bug"),
    ("please use tabs in the Makefile and spaces everywhere else", "indentation preferences"),
    ("the password is read from the environment, not from the file", "where do credentials come from"),
    ("sorting by name ignores upper and lower case now", "case insensitive ordering"),
    ("the picture gets blurry when it is scaled twice", "image quality is lost on resize"),
    ("we dropped support for Python 3.9", "oldest interpreter that works"),
    ("timestamps are saved in UTC and shown in local time", "time zone handling"),
    ("two workers wrote the same file at once and one lost", "race condition"),
    ("the button does nothing on phones", "mobile touch problem"),
    ("emails go out twice when the queue restarts", "duplicate notifications"),
    ("the search box should suggest words while one types", "autocomplete"),
    ("I moved the database to its own container", "docker setup for postgres"),
    ("the graph on the start page needs nine seconds", "dashboard performance"),
    ("never touch the generated files under proto", "do not edit protobuf output"),
    ("the server answers 502 after each upgrade until it is warm", "bad gateway following deployment"),
    ("names with accents break the export", "unicode characters in the output are wrong"),
    ("the customer wants dark colours at night", "theme switching request"),
    ("a missing comma in the settings stopped everything", "configuration syntax error"),
    ("all endpoints need an API key from next month on", "authentication becomes mandatory"),
    ("the branch has conflicts with what Ann pushed", "merge trouble"),
    ("the disk was full because logs are never rotated", "out of storage space"),
    ("clicking back loses what was typed into the form", "unsaved input disappears"),
    ("totals are off by one day at the end of the month", "date boundary miscalculation"),
    ("only admins may see invoices", "who has access to billing documents"),
    ("the worker leaks connections until none are left", "pool exhaustion"),
    ("we pin every dependency with a hash", "supply chain protection"),
    ("the video stutters on slow networks", "buffering with low bandwidth"),
    ("write the docs for beginners, with pictures", "tutorial audience"),
    ("the certificate expires in March", "TLS renewal deadline"),
    ("the build works on my laptop but not on the runner", "CI fails while local succeeds"),
    ("undo should bring back deleted notes for a week", "recycle bin feature"),
    ("the robot's answer was cut off in the middle", "truncated reply from the assistant"),
)
"""Statements, each with a later query for it that shares hardly any words with it."""
MAX_RESULTS = 10


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        asyncio.run(compare_search(Path(name) / "sessions.db", sys.argv[1]))
    return 0


async def compare_search(path: Path, model: str) -> None:
    thread = StoreThread(lambda: SessionStore(path))
    store = await thread.open()
    texts = [text for text, _ in PARAPHRASED_QUERIES] + paragraphs()
    await thread.run(store_messages, store, texts)
    for name, folder in (("by words alone", None), ("by words and meaning", model)):
        recall = SessionRecall(
            thread, store, Archive(thread, store, "s", "/p"), "s", "/p", "session", embedding_model=folder
        )
        print(f"{name}, {len(texts)} messages")
        print(
            format_ranks(
                "asked in other words",
                [await result_rank(recall, asked, statement) for statement, asked in PARAPHRASED_QUERIES],
            )
        )
        print(
            format_ranks(
                "asked in three of its words",
                [
                    await result_rank(recall, three_longest_words(statement), statement)
                    for statement, _ in PARAPHRASED_QUERIES
                ],
            )
        )
    await thread.close()


async def result_rank(recall: SessionRecall, query: str, statement: str) -> int:
    """Return the rank of a statement in the results, from 1; 0 if it is not found."""
    found = (await recall.search(RecallQuery(query, limit=MAX_RESULTS))).items
    return next((at for at, one in enumerate(found, 1) if one.excerpt == statement), 0)


def format_ranks(name: str, ranks: Sequence[int]) -> str:
    first, five, all = (sum(0 < at <= most for at in ranks) for most in (1, 5, MAX_RESULTS))
    rank = sum(1 / at for at in ranks if at) / len(ranks)
    return (
        f"  {name:<30} first {first}, in 5 {five}, in {MAX_RESULTS} {all} of {len(ranks)}; reciprocal rank {rank:.2f}"
    )


def three_longest_words(text: str) -> str:
    return " ".join(sorted(text.replace(",", "").split(), key=len)[-3:])


def paragraphs() -> list[str]:
    """Return the paragraphs of the project's documents."""
    top = Path(__file__).parents[2]
    texts = [(top / name).read_text() for name in ("README.md", "CHANGELOG.md", "docs/decisions.md", "docs/context.md")]
    return [part.strip() for text in texts for part in text.split("\n\n") if len(part) > 80]


def store_messages(store: SessionStore, texts: Sequence[str]) -> None:
    store.create(SessionRow("s", "/p", "", "m", "ask", 1.0, 1.0))
    rows = [encode_message(User((Text(text),)), position) for position, text in enumerate(texts)]
    store.write("s", rows, snapshot=SnapshotRow(len(rows), encode_snapshot(Conversation(), len(rows))))


if __name__ == "__main__":
    sys.exit(main())
