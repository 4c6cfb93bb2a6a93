"""A server over HTTP that wants its user to log in by what another place says: `python -m tests.tools.mcp.misleading
URL` prints its port."""

import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

PLACE = sys.argv[1] if len(sys.argv) > 1 else ""


class Misleading(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(401)
        self.send_header("WWW-Authenticate", f'Bearer resource_metadata="{PLACE}"')
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing."""


if __name__ == "__main__":
    with HTTPServer(("127.0.0.1", 0), Misleading) as server:
        print(server.server_address[1], flush=True)
        server.serve_forever()
