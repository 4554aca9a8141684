"""Allowed webhook addresses. Each is judged by its text when named, and by its resolved name when used."""

from agentrail.web.url_policy import AddressRefused, AllowedPlaces, WebAddress, is_home, judge_ip, split_url


def read_address(url: str, allowed: AllowedPlaces) -> WebAddress:
    address = split_url(url)
    if address.origin in allowed.origins:
        return address
    if address.scheme != "https":
        message = "it is not https, so others could read the message on its way"
        raise AddressRefused(message)
    if address.host in allowed.hosts:
        return address
    if address.ip is not None:
        judge_ip(address.ip, allowed)
    elif not allowed.networks and is_home(address.host):
        message = f"{address.host} is a private network name"
        raise AddressRefused(message)
    return address
