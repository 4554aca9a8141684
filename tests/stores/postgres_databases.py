"""Databases with the tables of `PostgresStore` and a clock that stands still, and `check_store` on them over any way to the server."""

import contextlib
from urllib.parse import urlsplit

import psycopg

from agentrail.stores.postgres import PostgresStore
from agentrail.stores.postgres_schema import migrate
from agentrail.testing.check_store import check_store

_CLOCK = """
CREATE TABLE public.clock (ms bigint);
INSERT INTO public.clock VALUES (1000000);
CREATE OR REPLACE FUNCTION agentrail.now_ms() RETURNS bigint LANGUAGE sql VOLATILE AS 'SELECT ms FROM public.clock';
"""


def run_sql(url, sql):
    """Return the rows of a statement over a connection of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        cursor = connection.execute(sql)
        return cursor.fetchall() if cursor.description else []


def through(port, url):
    """Return a URL with another port, such as that of a pooler or a proxy."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{parts.netloc.rpartition(':')[0]}:{port}").geturl()


@contextlib.contextmanager
def fresh_databases(server):
    """Lend a function that creates databases; they are dropped after the block."""
    names = []

    def create():
        names.append(server.create_database())
        url = server.cluster.port_url_of(names[-1])
        migrate(url)
        run_sql(url, _CLOCK)
        return url

    try:
        yield create
    finally:
        for name in names:
            server.drop_database(name)


def check_rule(rule, databases, *, port=None, **options):
    """Run one rule of `check_store`, over another port than the server's if one is given."""
    urls = []

    def reach(url):
        return PostgresStore(url if port is None else through(port, url))

    def make():
        urls.append(databases())
        return reach(urls[-1])

    def move():
        for url in urls:
            run_sql(url, "UPDATE public.clock SET ms = ms + 15001")

    def reopen(store):
        store.close()
        return reach(urls[0])

    check_store(make, pass_lease=move, reopen=reopen, rules=[rule], **options)
