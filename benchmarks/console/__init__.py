"""What the web console costs the one who looks at it: the rows of drawing, beside a control that draws all rows and not only those near the window.

- `history.py` a long session, as events
- `server.py` a process of its own, which serves the files of the console, that session in pages and over a WebSocket, and words that stream
- `browser.py` Chromium, driven by Playwright, and what is asked of a page
- `drawing.py` the workloads

    python -m benchmarks --only console
"""
