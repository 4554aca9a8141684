"""What a message may contain of a value."""

from agentrail.config.key_filter import shown_address


def test_an_address_is_shown_without_a_user_and_a_password():
    """Whatever characters the password has, and with or without a scheme."""
    for given, shown in (
        ("http://bob:p/w@x#@h:80/a", "http://…@h:80/a"),
        ("bob:p\nw@h", "…@h"),
        ("http://h:80", "http://h:80"),
        (None, None),
    ):
        assert shown_address(given) == shown
