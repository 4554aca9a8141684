"""Web access: requests that cannot reach private addresses, and safe reading of untrusted pages.

- `url_policy.py` judges addresses, `backend.py` connects to judged ones, `transport.py` carries httpx over it. All requests
  to addresses chosen by strangers use these: pages, searches, webhooks.
- `web_client.py` fetches within limits. `page_text.py` extracts text, in a separate process (`page_helper.py`).
- `search.py` is the base of search engine adapters. The adapters are in `engines/`, one per file.
"""
