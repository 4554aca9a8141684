"""The web: requests that reach no private address, and pages of strangers, read where they can do no harm.

- `places.py` judges, `backend.py` connects to what was judged, `transport.py` carries httpx over it. All that goes where a
  stranger says goes through these: pages, searches, webhooks.
- `client.py` fetches, within bounds; `reading.py` makes text of what came, in a process of its own (`page_helper.py`).
- `searching.py` is what an adapter of a search engine is made with; the adapters stand in `engines/`, one to a file.
"""
