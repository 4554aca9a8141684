"""What the host and its gateway cost: the rows of 8.14, each beside what one would write without them, in the same run.

- `server.py` a process of its own, which serves an application and, beside it, what is bare · `serving.py` this process's end of it
- `readers.py` a thousand connections that read, in this process · `sockets.py` the same for WebSockets
- `fanout.py` · `coming_back.py` · `weights.py` · `leaving.py` · `stopping.py` the workloads over sockets
- `forwarding.py` calls and streams through a node that owns nothing
- `wires.py` the streams of third-party protocols beside our own, in this process
- `chats.py` a whole answer over HTTP, in this process
- `hooks.py` the workloads of the host alone, without a word of HTTP

    python -m benchmarks --only gateway
"""
