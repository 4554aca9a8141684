"""What a message may contain of a value."""

from agentrail.config.key_filter import HIDDEN, hide_keys, shown_address


def test_an_address_is_shown_without_a_user_and_a_password():
    """Whatever characters the password has, and with or without a scheme."""
    for given, shown in (
        ("http://bob:p/w@x#@h:80/a", "http://…@h:80/a"),
        ("bob:p\nw@h", "…@h"),
        ("http://h:80", "http://h:80"),
        (None, None),
    ):
        assert shown_address(given) == shown


def test_many_beginnings_of_a_key_take_linear_time():
    """Each of them was read to the end of them all: 256 KiB took a minute."""
    text = "eyJ-" * 50_000
    assert hide_keys(text) == text
    token = f"eyJ{'a' * 3_000}.{'b' * 9_000}.{'c' * 300}"
    assert hide_keys(f"a {token} {text}") == f"a {HIDDEN} {text}"
