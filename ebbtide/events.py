"""The session events that `Agent.send` yields. `Event` is the union of them all. docs/scripts.md lists them with their
fields."""

from ebbtide.agent.events.permissions import *  # noqa: F403  # re-exports everything defined there
from ebbtide.agent.events.plan import *  # noqa: F403  # as above
from ebbtide.agent.events.session import *  # noqa: F403  # as above
from ebbtide.agent.events.subagents import *  # noqa: F403  # as above
from ebbtide.agent.events.view import *  # noqa: F403  # as above
