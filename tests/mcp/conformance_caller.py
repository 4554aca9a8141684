"""What the conformance suite starts as the client: it passes the address and the scenario to the test, and exits as its client did.

    python conformance_caller.py PORT http://localhost:PORT/mcp

A client in a process that is forked off a warm interpreter costs a tenth of one that imports everything first.
"""

import json
import os
import socket
import sys

port, url = sys.argv[1:]
given = {name: value for name, value in os.environ.items() if name.startswith("MCP_CONFORMANCE_")}
with socket.create_connection(("127.0.0.1", int(port))) as test:
    test.sendall(json.dumps([url, given]).encode() + b"\n")
    code, out, err = json.load(test.makefile())
sys.stdout.write(out)
sys.stderr.write(err)
sys.exit(code)
