"""Which tools the next requests offer. That changes only together with the view, so that requests keep their
beginning."""

from agent.env import Env
from agent.measuring import window_of


def choose_tools(env: Env) -> None:
    """Chooses the tools that are held back from now on: at the start of a session, and at a rewrite of its view.
    What servers have brought meanwhile joins them."""
    before = env.offered
    env.served.join()
    search = env.provider.facts.tool_search
    env.deferral.choose(env.tools, window_of(env).effective, env.meter.size_of_tool, env.emit, search)
    if env.offered != before:
        env.watch.retooled()
