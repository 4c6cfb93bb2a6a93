"""Going back to before one of the user's messages. It knows the session and no screen."""

from agent.branching import Said, Tree, changed_since
from tui.ports import Library
from tui.talk import Talk
from tui.treelines import rewound


async def tree_here(talk: Talk, library: Library) -> Tree | None:
    """The user's messages of the session and its forks; None when there is nothing to go back to, which is told."""
    tree = await library.tree(talk.session.id) if talk.session is not None else None
    if tree is None or not any(branch.said for branch in tree.branches):
        talk.notice("there is nothing to go back to: nothing was said yet")
        return None
    return tree


async def go_back(talk: Talk, library: Library, tree: Tree, said: Said) -> bool:
    """Goes on in a fork from before the message, as far as it can be opened. The session that was left stays as it
    is."""
    fork = await library.fork(said.session, said.position, draft=True)
    is_open = await talk.open(resume=fork.id)
    if is_open:
        talk.notice(rewound(changed_since(tree, said)))
    return is_open
