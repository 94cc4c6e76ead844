"""A look at the page from this machine alone: one file, over HTTP, on the loopback interface."""

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from commonground.page.build import module, policy, script

LOOPBACK = "127.0.0.1"


def server_of(text: str, port: int = 0) -> ThreadingHTTPServer:
    """A server that knows this one page; port 0: any free one. The page's own policy is sent as a header, too."""
    content = text.encode("utf-8")
    headers = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Security-Policy": policy(script(), module("page.css")) + "; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        "Content-Length": str(len(content)),
    }

    class OnePage(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path not in ("/", "/page.html"):
                self.send_error(404, "There is one page here: /")
                return
            self.send_response(200)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing is written down of who looked."""

    return ThreadingHTTPServer((LOOPBACK, port), OnePage)
