"""What the operator of a server allows: measuring on its machine, and sharing measurements between its users.

A server that only its own computer reaches belongs to whoever sits there: both are on. Any other has users, who
neither load its machine nor see each other's measurements unless its operator says so.
"""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import urlsplit

import streamlit as st

from planner.measure.endpoint.options import KEY_VARIABLE

MEASURE = "HEADROOM_MEASURE"
ENDPOINT = "HEADROOM_MEASURE_ENDPOINT"
SHARED = "HEADROOM_SHARED_MEASUREMENTS"
KEY_ADDRESS = "HEADROOM_ENDPOINT_URL"
ON = frozenset({"on", "yes", "true", "1"})
OFF = frozenset({"off", "no", "false", "0"})
# Who came through another server may sit anywhere, whatever address this one is bound to.
FORWARDED = frozenset({"forwarded", "x-real-ip", "via", "true-client-ip"})
FORWARDED_BEGINS = ("x-forwarded-", "cf-")
DEFAULT_PORTS = {"http": 80, "https": 443}


def is_local() -> bool:
    """Whether the visitor sits at this computer, as far as can be told.

    The server is bound to this computer alone, and the browser asked for it under a name of this computer: behind a
    tunnel, or a name that somebody made resolve to here, it would have asked for another.
    """
    address = str(st.get_option("server.address") or "")
    return _is_loopback(address) and _asks_for_here(
        visitor_headers(), int(st.get_option("server.port"))
    )


def visitor_headers() -> Mapping[str, str]:
    """Headers with which the visitor's browser opened the session."""
    return st.context.headers


def _asks_for_here(headers: Mapping[str, str], port: int) -> bool:
    """Whether Host and Origin both name this computer and the server's port, and nothing tells of a proxy."""
    names = {name.lower() for name in headers}
    if names & FORWARDED or any(name.startswith(FORWARDED_BEGINS) for name in names):
        return False
    asked = {name.lower(): value for name, value in headers.items()}
    # The scheme of the Host is the Origin's: behind a server that speaks another there is a proxy.
    origin = asked.get("origin", "")
    scheme = origin.partition("://")[0]
    host = f"{scheme}://{asked.get('host', '')}"
    return scheme in DEFAULT_PORTS and all(_names_here(one, port) for one in (origin, host))


def _names_here(address: str, port: int) -> bool:
    try:
        parts = urlsplit(address)
        found = parts.port or DEFAULT_PORTS[parts.scheme]
    except (ValueError, KeyError):
        return False
    return found == port and not parts.username and _is_loopback(parts.hostname or "")


def _is_loopback(address: str) -> bool:
    if address.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def measuring_is_on() -> bool:
    """Whether visitors may measure on this machine."""
    return _switched(MEASURE)


def endpoints_are_on() -> bool:
    """Whether visitors may have this machine call other servers, which is more than letting them measure it."""
    return measuring_is_on() and _switched(ENDPOINT)


def sharing_is_on() -> bool:
    """Whether visitors see the measurements that are kept on this machine."""
    return _switched(SHARED)


def _switched(name: str) -> bool:
    """The operator's word, else whether the server is local."""
    said = os.environ.get(name, "").strip().lower()
    return said in ON or (said not in OFF and is_local())


def endpoint_key_is_set() -> bool:
    """Whether the server's environment holds a key for endpoints; what it is stays there."""
    return bool(os.environ.get(KEY_VARIABLE, "").strip())


def endpoint_key_address() -> str:
    """The one address that the operator's key goes to from the page, or ""."""
    return os.environ.get(KEY_ADDRESS, "").strip().rstrip("/")


def endpoint_key_goes_to(url: str) -> bool:
    """Whether the operator's key is sent to an address: only to theirs, and only for who sits at this computer."""
    address = endpoint_key_address()
    return is_local() and bool(address) and url.strip().rstrip("/") == address
