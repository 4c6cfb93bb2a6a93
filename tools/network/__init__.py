"""Network access: host names, addresses, and the proxy for sandboxed commands. Permissions are decided elsewhere."""
