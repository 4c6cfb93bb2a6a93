"""Network access: host names, addresses, and the proxy for sandboxed commands. Permissions are decided elsewhere."""

from typing import TYPE_CHECKING

from ebbtide.tools.lazy import lazy_submodules

if TYPE_CHECKING:
    from ebbtide.tools.network import connection as connection
    from ebbtide.tools.network import name_lookup as name_lookup
    from ebbtide.tools.network import proxy as proxy
else:
    __getattr__ = lazy_submodules(__name__)
