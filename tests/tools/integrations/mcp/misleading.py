"""A server over HTTP that wants its user to log in by what another place says:
`python -m tests.tools.integrations.mcp.misleading URL` prints its port."""

import sys
from http.server import HTTPServer

from tests.kit.web_server import QuietHandler

PLACE = sys.argv[1] if len(sys.argv) > 1 else ""


class Misleading(QuietHandler):
    def do_POST(self) -> None:
        self.body()
        self.reply(401, b"", {"WWW-Authenticate": f'Bearer resource_metadata="{PLACE}"'})


if __name__ == "__main__":
    with HTTPServer(("127.0.0.1", 0), Misleading) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()
