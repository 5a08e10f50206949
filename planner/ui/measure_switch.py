"""What the operator of a server allows: measuring on its machine, and sharing measurements between its users.

A server that only its own computer reaches belongs to whoever sits there: both are on. Any other has users, who
neither load its machine nor see each other's measurements unless its operator says so.
"""

from __future__ import annotations

import ipaddress
import os

import streamlit as st

MEASURE = "HEADROOM_MEASURE"
SHARED = "HEADROOM_SHARED_MEASUREMENTS"
ON = frozenset({"on", "yes", "true", "1"})
OFF = frozenset({"off", "no", "false", "0"})
# Who came through another server may sit anywhere, whatever address this one is bound to.
FORWARDED = ("Forwarded", "X-Forwarded-For", "X-Real-Ip")


def is_local() -> bool:
    """Whether the server is bound to this computer alone, and the visitor didn't come through another one."""
    address = str(st.get_option("server.address") or "")
    return _is_loopback(address) and not any(name in st.context.headers for name in FORWARDED)


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


def sharing_is_on() -> bool:
    """Whether visitors see the measurements that are kept on this machine."""
    return _switched(SHARED)


def _switched(name: str) -> bool:
    """The operator's word, else whether the server is local."""
    said = os.environ.get(name, "").strip().lower()
    return said in ON or (said not in OFF and is_local())


def endpoint_key_is_set(name: str) -> bool:
    """Whether the server's environment holds a key for endpoints; what it is stays there."""
    return bool(os.environ.get(name, "").strip())
