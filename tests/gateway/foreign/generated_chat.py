"""One chat by the client that openapi-python-client made of `/openapi.json`. Run by the Python of its own environment, where ours is not.

python generated_chat.py <folder of the package> <base url> <token>
"""

import json
import sys

folder, base_url, token = sys.argv[1:]
sys.path.insert(0, folder)

from made import AuthenticatedClient  # noqa: E402 - it was made a moment ago
from made.api.chat import post_chat  # noqa: E402
from made.api.sessions import get_session, get_sessions  # noqa: E402
from made.models import ChatBody, ChatReply, ErrorReply  # noqa: E402

with AuthenticatedClient(base_url=base_url, token=token) as client:
    reply = post_chat.sync(client=client, body=ChatBody(message="Hi", session_id="main"))
    assert isinstance(reply, ChatReply), reply
    page = get_sessions.sync(client=client, limit=5)
    snapshot = get_session.sync(reply.session_id, client=client)
    refused = post_chat.sync(client=client, body=ChatBody(message="Hi", session_id="main", agent_id="other"))
    assert isinstance(refused, ErrorReply), refused
told = {
    "text": reply.text,
    "seq": reply.seq,
    "window": reply.context.window,
    "sessions": [one.session_id for one in page.sessions],
    "roles": [one.role for one in snapshot.messages],
    "refused": refused.error.code,
}
sys.stdout.write(json.dumps(told))
