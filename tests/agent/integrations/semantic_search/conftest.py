"""Sessions in a real database, as for the archive."""

from tests.agent.archive.conftest import sessions as sessions
