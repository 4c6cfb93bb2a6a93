"""How to install optional packages."""

import os
import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra into the program's environment. The packages are named
    individually, because Ebbtide itself may have been installed from a folder or from a wheel that no package index
    has."""
    marker = f'extra == "{extra}"'
    try:
        requirements = [requirement.partition(";") for requirement in requires("ebbtide") or ()]
    except PackageNotFoundError:
        requirements = []
    packages = [name.strip() for name, _, condition in requirements if condition.strip().replace("'", '"') == marker]
    if not packages:
        return f"pip install 'ebbtide[{extra}]'"
    if os.path.exists(os.path.join(sys.prefix, "pipx_metadata.json")):
        return shlex.join(("pipx", "inject", "ebbtide", *packages))
    if find_spec("pip") is None:
        return shlex.join(("uv", "pip", "install", "--python", sys.executable, *packages))
    return shlex.join((sys.executable, "-m", "pip", "install", *packages))
