"""Where webhooks may go: over TLS, to public servers, and to what an operator allows beside those.

Pure: texts and addresses in, a verdict out. It is judged twice, with the same rules: when a message names it, by what stands in it, and when
something is sent, by what its name leads to then (`agentrail.web.places`).
"""

from agentrail.web.places import AddressRefused, AllowedPlaces, WebAddress, is_home, judge_ip, split_url


def read_address(url: str, allowed: AllowedPlaces) -> WebAddress:
    """Read an address, and judge it by what can be seen of it."""
    address = split_url(url)
    if address.origin in allowed.origins:
        return address
    if address.scheme != "https":
        message = "it is not https, and what is sent there could be read on its way"
        raise AddressRefused(message)
    if address.host in allowed.hosts:
        return address
    if address.ip is not None:
        judge_ip(address.ip, allowed)
    elif not allowed.networks and is_home(address.host):
        message = f"{address.host} is a name of a private network"
        raise AddressRefused(message)
    return address
