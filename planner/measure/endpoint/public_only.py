"""Connections to public addresses alone: for servers whose visitors say where it goes.

A host is looked up once, and connected to under the address that was checked: a name that resolves to another address
a moment later leads nowhere else.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket

import httpx2 as httpx

from planner.errors import Unreachable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
# Carries an IPv4 address in its last bits, to a network that translates (RFC 6052).
TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


def is_public(address: str) -> bool:
    """Whether an address is one of the public Internet, and so is the IPv4 address that it may carry."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    carried: list[Address | None] = []
    if isinstance(found, ipaddress.IPv6Address):
        carried = [found.ipv4_mapped, found.sixtofour, *(found.teredo or ())]
        if found in TRANSLATED:
            carried.append(ipaddress.IPv4Address(int(found) & 0xFFFFFFFF))
    return all(_is_public(one) for one in (found, *carried) if one is not None)


def _is_public(address: Address) -> bool:
    # A mapped address is judged by what it carries.
    mapped = isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None
    return (mapped or address.is_global) and not (address.is_multicast or address.is_unspecified)


class PublicOnly(httpx.AsyncHTTPTransport):
    """A transport that refuses hosts of which any address isn't public (`endpoint_not_public`)."""

    def __init__(self, limits: httpx.Limits) -> None:
        super().__init__(limits=limits, trust_env=False)
        self._checked: dict[str, str] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Sends a request to the checked address, under the name that it was asked by."""
        host = request.url.raw_host.decode("ascii")
        if host not in self._checked:
            self._checked[host] = await _checked(host, request.url.port)
        # The header Host is there already; the certificate is held against the name.
        request.extensions = {**request.extensions, "sni_hostname": host}
        request.url = request.url.copy_with(host=self._checked[host])
        return await super().handle_async_request(request)


async def _checked(host: str, port: int | None) -> str:
    """An address of a host.

    Raises:
        Unreachable: one of its addresses isn't public.
        ConnectError: nobody knows it.
    """
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port or 0, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise httpx.ConnectError("no such host") from None
    addresses = [str(one[4][0]) for one in found]
    if not addresses or not all(is_public(one) for one in addresses):
        raise Unreachable("endpoint_not_public", field="url", host=host)
    return addresses[0]
