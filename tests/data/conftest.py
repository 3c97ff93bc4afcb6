"""A web server on this machine, so that downloads can be tested good, broken and cut off."""

import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest


class Server(ThreadingHTTPServer):
    """`files[path]` is a list of answers, the last one repeated: bytes, or (bytes, claimed length)."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.files: dict[str, list] = {}
        self.asked = Counter()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        answers = self.server.files.get(self.path)
        if answers is None:
            return self.send_error(404)
        answer = answers[min(self.server.asked[self.path], len(answers) - 1)]
        self.server.asked[self.path] += 1
        body, claimed = answer if isinstance(answer, tuple) else (answer, len(answer))
        self.send_response(200)
        self.send_header("Content-Length", str(claimed))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Server() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.shutdown()
