"""Callers of a served host, who are known by a token of their own, and the rows of what one of them watches."""

from agentrail.host import Principal

CALLERS = {
    "ann": Principal(tenant_id="acme", user_id="ann"),
    "bob": Principal(tenant_id="acme", user_id="bob"),
    "team": Principal(tenant_id="acme", user_id=""),
    "looks": Principal(tenant_id="acme", user_id="ann", scopes=("inspect",)),
    "boss": Principal(tenant_id="acme", user_id="boss", scopes=("use", "inspect")),
    "eve": Principal(tenant_id="else", user_id="eve", scopes=("use", "inspect", "decide")),
    "lea": Principal(tenant_id="acme", user_id="lea"),
    "lea2": Principal(tenant_id="else", user_id="lea"),
    "dan": Principal(tenant_id="acme", user_id="dan", scopes=("use", "decide")),
    "dot": Principal(tenant_id="acme", user_id="dot", scopes=("decide",)),
}


def auth(headers):
    return CALLERS.get(headers.get("authorization", "").removeprefix("Bearer "))


def by(name):
    return {"authorization": f"Bearer {name}"}


class Rows:
    """The rows of one watch, as its client has them: of all frames that this client has seen, also while it waited for something else."""

    def __init__(self, client, name="w"):
        self.client = client
        self.id = name
        self.rows = {}
        self.frames = 0
        self._looked_at = len(client.seen)

    async def begin(self, what="sessions", **wanted):
        await self.client.send(type="watch", id=self.id, what=what, filter=wanted)
        frame = await self.client.until("watching", id=self.id)
        assert frame["what"] == what
        self._catch_up()
        return self

    async def until(self, test):
        self._catch_up()
        while not test(self.rows):
            await self.client.next()
            self._catch_up()
        return self.rows

    async def find(self, test):
        """Take frames until one row passes a test, and give it."""
        await self.until(lambda rows: any(map(test, rows.values())))
        return next(filter(test, self.rows.values()))

    def _catch_up(self):
        seen = self.client.seen
        for frame in seen[self._looked_at :]:
            if frame["type"] in ("watching", "changed") and frame["id"] == self.id:
                self._take(frame)
        self._looked_at = len(seen)

    def _take(self, frame):
        self.frames += 1
        for row in frame["rows"]:
            self.rows[row["key"] if "key" in row else row["session_id"]] = row
        for key in frame.get("gone", ()):
            del self.rows[key]
