"""A server of embeddings on this machine, for commands: what is about travelling points one way, all else the other."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_TRAVEL = ("train", "railway", "travel")


@contextmanager
def embedding_server(home: Path) -> Iterator[list[dict[str, Any]]]:
    """Serve, let the files of a home name it, and give what it was asked."""
    asked: list[dict[str, Any]] = []

    class Answer(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Give a vector for each text; of a model named `long` one number too many."""
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append(body | {"key": self.headers.get("authorization")})
            about = [any(word in text.lower() for word in _TRAVEL) for text in body["input"]]
            more = [0.5] if body["model"] == "long" else []
            rows = [
                {"index": n, "embedding": [float(one), float(not one), *more]} for n, one in enumerate(about)
            ]
            content = json.dumps({"data": rows}).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_said: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
    thread = threading.Thread(target=server.serve_forever, args=[0.01])
    thread.start()
    name_embedder(home, model="small", dimension=2, base_url=f"http://127.0.0.1:{server.server_port}")
    try:
        yield asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def name_embedder(home: Path, **values: object) -> None:
    """Write what the user's file says of it; of what was written before, what is not said anew stays."""
    file = home / ".agentrail" / "agentrail.toml"
    file.parent.mkdir(exist_ok=True)
    said = dict(line.split(" = ", 1) for line in file.read_text().splitlines()[1:]) if file.exists() else {}
    said |= {name: str(value) if name == "api_key" else json.dumps(value) for name, value in values.items()}
    file.write_text("[embedder]\n" + "".join(f"{name} = {value}\n" for name, value in said.items()))
