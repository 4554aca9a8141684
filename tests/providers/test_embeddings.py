"""`OpenAIEmbedder`: what it sends to `/embeddings`, what it reads, and what it says where that is no answer."""

import json

import pytest

from agentrail.abc import Secret
from agentrail.errors import Authentication, OptionError, ProtocolError, ProviderError
from agentrail.providers.embeddings import OpenAIEmbedder
from tests.runtime.rig import on_bounded_time
from tests.web.sites import Site, open_sites

ROWS = [{"index": 1, "embedding": [0.5, 0.5]}, {"index": 0, "embedding": [1, 0]}]

LONG_ROWS = [{"index": n, "embedding": [1, 2, 3]} for n in (0, 1)]


def answering(body, status=200):
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Site(any=(status, {"Content-Type": "application/json"}, content))


def embedder_at(site, **options):
    given = {"dimension": 2, "api_key": Secret("sk-secret-1"), **options}
    return OpenAIEmbedder("small", base_url=f"http://127.0.0.1:{site.port}/v1/", **given)


@on_bounded_time
async def test_vectors_come_in_the_order_of_their_texts():
    """In one request, whatever order the server answers in; the key goes along, and stands in no text (12.5)."""
    site = answering({"data": ROWS, "model": "small", "usage": {"prompt_tokens": 2}})
    async with open_sites(site), embedder_at(site, headers={"x-team": "desk"}) as embedder:
        assert await embedder.embed(["tea", "rail"]) == [[1, 0], [0.5, 0.5]]
        assert site.asked == [("POST", "/v1/embeddings")]
        assert site.headers[0]["authorization"] == "Bearer sk-secret-1"
        assert site.headers[0]["x-team"] == "desk"
        sent = {"model": "small", "input": ["tea", "rail"], "encoding_format": "float"}
        assert json.loads(site.bodies[0]) == sent
        assert embedder.name == f"small at http://127.0.0.1:{site.port}/v1/embeddings"
        assert "sk-secret" not in repr(embedder)
    async with open_sites(site), embedder_at(site, api_key=None, sends_dimension=True) as embedder:
        await embedder.embed(["tea", "rail"])
        assert json.loads(site.bodies[1])["dimensions"] == 2
        assert "authorization" not in site.headers[1]
    async with open_sites(site), embedder_at(site, api_key="key-of-a-file\n") as embedder:
        await embedder.embed(["tea", "rail"])
        assert site.headers[2]["authorization"] == "Bearer key-of-a-file"


@on_bounded_time
async def test_the_largest_batch_of_a_large_model_is_read():
    """`text-embedding-3-large` has 3,072 components, and OpenAI writes one per line: 6 MB for 64 texts."""
    vector = [-0.012345678901234567] * 3_072
    body = json.dumps({"data": [{"index": n, "embedding": vector} for n in range(64)]}, indent=2).encode()
    site = answering(body)
    async with open_sites(site), embedder_at(site, dimension=3_072) as embedder:
        assert len(await embedder.embed(["tea"] * 64)) == 64


@pytest.mark.parametrize(
    ("body", "status", "kind", "said"),
    [
        ({"data": ROWS[:1]}, 200, ProtocolError, "gave 1 vectors of 2 numbers for 2 texts"),
        ({"data": [*ROWS, ROWS[0] | {"index": 2}]}, 200, ProtocolError, "gave 3 vectors"),
        ({"data": LONG_ROWS}, 200, ProtocolError, "check that it is an embedding model"),
        ({"data": ["x", {"embedding": "AAAA"}]}, 200, ProtocolError, "gave 0 vectors"),
        ({"data": [{"embedding": [None, 1]}, {"embedding": [1, 0]}]}, 200, ProtocolError, "gave 1 vectors"),
        (
            b'{"data": [{"embedding": [NaN, 1]}, {"embedding": [1e999, 0]}]}',
            200,
            ProtocolError,
            "gave 0 vectors",
        ),
        ([], 200, ProtocolError, "gave 0 vectors"),
        (b"<html>", 200, ProtocolError, "<html>"),
        ({"error": {"message": "bad key sk-secret-1"}}, 401, Authentication, "OpenAIEmbedder"),
        ({"error": {"message": "no"}}, 500, ProviderError, "no"),
    ],
)
@on_bounded_time
async def test_what_is_no_answer_is_a_typed_error(body, status, kind, said):
    """Whose fault it is, and no key in the text."""
    site = answering(body, status)
    async with open_sites(site), embedder_at(site) as embedder:
        with pytest.raises(kind) as caught:
            await embedder.embed(["tea", "rail"])
    assert said in str(caught.value)
    assert "sk-secret-1" not in str(caught.value)


async def test_what_cannot_be_is_refused():
    """Before anything is asked; of texts the port takes 1 to 64."""
    for model, options, said in (
        ("", {}, "model is ''"),
        ("small", {"dimension": 0}, "dimension is 0"),
        ("small", {"base_url": "example.com"}, "expected https://host/path"),
        (
            "small",
            {"base_url": "http://ada:s3cret@host/v1"},
            "'base_url': an address must hold no credentials",
        ),
        ("small", {"base_url": "ada:s3cret@host"}, "'base_url': an address must hold no credentials"),
        ("small", {"headers": {"x-team": "é"}}, "'x-team' must be a printable ASCII text"),
        ("small", {"base_url": "http://a..b/v1"}, "'base_url': this is not an address"),
        ("small", {"api_key": "\ufeffkey"}, "the key has characters no header can carry"),
    ):
        with pytest.raises(OptionError, match=said) as caught:
            OpenAIEmbedder(model, **{"dimension": 2, **options})
        assert "s3cret" not in str(caught.value)
    async with OpenAIEmbedder("small", dimension=2) as embedder:
        for count in (0, 65):
            with pytest.raises(OptionError, match=f"{count} texts were given: expected 1 to 64"):
                await embedder.embed(["x"] * count)
