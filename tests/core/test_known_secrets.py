"""Known secrets are found exactly, in each of their forms, wherever a text is cut; and nothing else is touched (AT-156)."""

import base64
import itertools
import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import example, given, settings, strategies as st

from agentrail.core.values.secret_encodings import MIN_SECRET_CHARACTERS, secret_forms_of
from agentrail.core.values.secret_scrubber import REPLACEMENT, KnownSecrets, StreamedText
from tests.thinned import each

KEY = 'sk-live/+4711 "quoted" \\ <é>'
# Some repeat themselves, some overlap, one stands in another, one begins as another ends.
VALUES = (
    *(
        "aaaaaaaa",
        "aaaaaaaab",
        "abaababaabaab",
        "12345678",
        "567890ab",
        "0123456789",
        "secret-é/+",
        "bbbbaaaa",
    ),
)
KNOWN = KnownSecrets(VALUES)
FORMS = sorted({form for value in VALUES for form in secret_forms_of(value)})

pytestmark = pytest.mark.at(156)


def test_a_secret_is_found_as_json_addresses_and_python_write_it():
    """What is left of it holds nothing that tells."""
    for form in (
        KEY,
        json.dumps(KEY),
        json.dumps(KEY, ensure_ascii=False),
        json.dumps({KEY: [json.dumps([KEY])]}),
        json.dumps(KEY).replace("/", "\\/"),
        json.dumps(KEY).replace("<", "\\u003c").replace(">", "\\u003e"),
        quote(KEY),
        quote(KEY, safe="").lower(),
        quote_plus(KEY),
        repr(KeyError(KEY)),
        ascii(KEY),
    ):
        said = KnownSecrets([KEY]).replaced(f"before {form} after")
        assert said.startswith("before ")
        assert said.endswith(" after")
        assert REPLACEMENT in said
        assert "4711" not in said
        assert "quoted" not in said


@each(("before", "encode"), itertools.product(range(7), [base64.b64encode, base64.urlsafe_b64encode]))
def test_a_secret_is_found_in_base64_wherever_it_begins(before, encode):
    """Three bytes are four characters, so it looks different behind one byte, behind two, and behind three."""
    data = b"user:pw"[:before] + b"sk~~??>>0123456789" + b" and more"
    coded = encode(data).decode()
    said = KnownSecrets(["sk~~??>>0123456789"]).replaced(coded)
    assert REPLACEMENT in said
    # Of 24 characters: the first and the last are not decided by it alone.
    assert len(coded) - len(said.replace(REPLACEMENT, "")) >= 22


def test_what_is_short_or_stands_for_a_secret_is_none():
    """Texts would be full of it, and what was replaced would be replaced again; its repr, for logs, does not show what it knows."""
    assert secret_forms_of("a") == secret_forms_of("1234567") == secret_forms_of("  1234567\n") == ()
    assert not KnownSecrets(["a", "1", ""])
    assert KnownSecrets(["a"]).replaced("a banana") == "a banana"
    assert KnownSecrets(["12345678\n"]).replaced("is 12345678.") == f"is {REPLACEMENT}."
    assert min(map(len, FORMS)) >= MIN_SECRET_CHARACTERS

    assert not KnownSecrets([REPLACEMENT, "Secret(…"])

    assert repr(KnownSecrets(["12345678"])) == "KnownSecrets(4 forms)"


def test_what_secrets_cover_together_is_replaced_by_one():
    """And what they do not cover stays, the pieces too; a row of one letter takes no longer than its length."""
    for text, said in (
        ("aaaaaaaab", "*"),
        ("x aaaaaaaaaaaaaaaaaaaa x", "x * x"),
        ("aaaaaaaabaaaaaaaab", "**"),
        ("12345678567890ab", "**"),
        ("1234567890ab", "*"),  # two that overlap
        ("x0123456789x", "x*x"),  # one in another
        ("abaababaabaababaabaab", "*"),  # one that overlaps itself
        ("bbbbaaaaaaaa", "*"),
        ("1234567 8", "1234567 8"),
        ("", ""),
    ):
        assert KNOWN.replaced(text) == said.replace("*", REPLACEMENT)

    known = KnownSecrets(["a" * 1000, "a" * 999 + "b"])
    assert known.replaced("a" * 100_000) == REPLACEMENT
    assert known.replaced(("a" * 998 + "c") * 100) == ("a" * 998 + "c") * 100

    # What stands for a secret stands in the piece where it began.
    assert KNOWN.replaced_pieces(["x 1234", "5678", " y", ""]) == [f"x {REPLACEMENT}", "", " y", ""]
    assert KNOWN.replaced_pieces(["12345678", "12345678"]) == [REPLACEMENT, REPLACEMENT]
    whole = ("a", "b")
    assert KNOWN.replaced_pieces(whole) is whole


TEXTS = st.lists(
    st.sampled_from([*VALUES, *FORMS, *(value[:5] for value in VALUES), "a", "b", "x", "é", " ok ", "1234"])
    | st.text(max_size=5),
    max_size=10,
).map("".join)


def pieces_of(text, cuts):
    places = sorted({0, len(text), *(cut % (len(text) + 1) for cut in cuts)})
    return [text[begin:end] for begin, end in itertools.pairwise(places)]


def ends_in_a_secret_that_overlaps_one(text):
    """Whether a text ends in more than half of a secret that begins inside one that is there completely."""
    begun = [
        size
        for form in FORMS
        for size in range(max(len(form) // 2 + 1, MIN_SECRET_CHARACTERS), len(form))
        if text.endswith(form[:size])
    ]
    stretches = KNOWN.found_in(text)
    return bool(begun and stretches) and len(text) - max(begun) < stretches[-1][1]


@given(text=TEXTS, cuts=st.lists(st.integers(0, 200), max_size=12))
@example(text="aaaaaaaaabaababaab", cuts=[])
@settings(max_examples=60)
def test_wherever_a_stream_is_cut_no_secret_gets_through_and_the_rest_does(text, cuts):
    """What was let through is the same for each cut, and the same as of the whole text."""
    pieces, stream = pieces_of(text, cuts), StreamedText(KNOWN)
    whole = KNOWN.replaced(text)
    assert not any(form in whole for form in FORMS)
    if not any(form in text for form in FORMS):
        assert whole == text
    said = "".join(map(stream.feed, pieces))
    assert whole.startswith(said)
    end, rest = stream.let_go(), whole[len(said) :]
    if end == "" and said.endswith(REPLACEMENT):  # one replacement stands for both
        assert not rest or ends_in_a_secret_that_overlaps_one(text)
    else:
        cuts = range(len(rest) - MIN_SECRET_CHARACTERS + 1)
        assert end in {rest, *(f"{rest[:cut]}{REPLACEMENT}" for cut in cuts)}
    assert "".join(KNOWN.replaced_pieces(pieces)) == whole


@given(text=TEXTS, cuts=st.lists(st.integers(0, 200), max_size=12))
@settings(max_examples=40)
def test_what_is_let_go_after_each_piece_holds_no_secret_either(text, cuts):
    """As the progress of tools, and as a stream with pauses: the rest of what was let go is replaced."""
    stream = StreamedText(KNOWN)
    said = "".join([stream.feed(piece) + stream.let_go() for piece in pieces_of(text, cuts)])
    assert not any(form in said for form in FORMS)


@each("cut", range(1, 20))
def test_less_than_half_of_a_secret_is_let_go_at_the_end_and_more_is_replaced(cut):
    """A text that ends in the middle of one: who has most of a key has the key."""
    key = "sk-0123456789abcdefgh"
    stream = StreamedText(KnownSecrets([key]))
    assert stream.feed(f"it is {key[:cut]}") == "it is "
    assert stream.is_waiting
    assert stream.let_go() == (REPLACEMENT if cut > len(key) / 2 else key[:cut])
    assert not stream.is_waiting
    assert stream.let_go() == ""
    assert stream.feed(key[cut:]) == ("" if cut > len(key) / 2 else REPLACEMENT)


def test_of_what_is_let_go_the_shorter_secret_counts_too():
    """The beginning of a long one may end in most of a short one; another may be told already, and is not replaced again."""
    stream = StreamedText(KnownSecrets(["long-long-long-long-long-long-short-0", "short-01234"]))
    assert stream.feed("long-long-long-long-long-long-short-") == ""
    assert stream.let_go() == REPLACEMENT
    stream = StreamedText(KnownSecrets(["12345678", "56789abcdefgh"]))
    assert stream.feed("12345678") == REPLACEMENT
    assert stream.feed("9abc") == ""
    assert stream.let_go() == ""
    assert stream.feed("!") == "!"
    stream = StreamedText(KnownSecrets(["aaaa-bbbb-cccc-dddd", "aaaa-bbbb-cccc-eeee-ffff-gggg-hhhh-iiii"]))
    assert stream.feed("aaaa-bbbb-cccc-eee") == ""
    assert stream.let_go() == "aaaa-bbbb-cccc-eee"
    assert stream.is_clear is False

    stream = StreamedText(KnownSecrets(["12345678", "1234567890abcdef"]))
    said = [stream.feed("12345678"), stream.let_go(), stream.feed("1234"), stream.let_go()]
    assert "".join(said) == f"{REPLACEMENT}1234"

    stream, piece = StreamedText(KnownSecrets(["12345678"])), "no digit in here"
    assert stream.feed(piece) is piece
    assert stream.is_clear
