"""Who counts as sitting at this computer, what the operator's switches allow, and where the operator's key may go."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from planner.ui import measure_switch


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.8.8.8", True), ("0.0.0.0", False),
        ("", False), ("::", False), ("192.168.1.5", False), ("example.org", False),
    ],
)  # fmt: skip
def test_what_counts_as_this_computer_alone(address: str, local: bool) -> None:
    assert measure_switch._is_loopback(address) is local


@pytest.mark.parametrize(("said", "on"), [("on", True), ("1", True), ("off", False), ("", True)])
def test_a_local_server_measures_unless_it_is_switched_off(
    said: str, on: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADROOM_MEASURE", said)
    assert measure_switch.measuring_is_on() is on


def visits(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str], address: str | None = "127.0.0.1"
) -> bool:
    stand_in = SimpleNamespace(
        get_option=lambda name: {"server.address": address, "server.port": 8501}[name]
    )
    monkeypatch.setattr(measure_switch, "st", stand_in)
    monkeypatch.setattr(measure_switch, "visitor_headers", lambda: headers)
    return measure_switch.is_local()


def sent(host: str, **more: str) -> dict[str, str]:
    """Headers of a browser that opened the page under this host."""
    return {"Host": host, "Origin": f"http://{host}"} | more


@pytest.mark.parametrize(
    "host", ["localhost:8501", "127.0.0.1:8501", "[::1]:8501", "LOCALHOST:8501", "127.8.8.8:8501"]
)
def test_who_asks_for_this_computer_sits_at_it(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert visits(monkeypatch, sent(host))
    for address in (None, "0.0.0.0", "192.168.1.5"):
        assert not visits(monkeypatch, sent(host), address)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "localhost:8501"},
        {"Origin": "http://localhost:8501"},
        {"Host": "localhost:8501", "Origin": "null"},
        {"Host": "localhost:8501", "Origin": "file://localhost:8501"},
        sent("rebound.example.org:8501"),
        sent("tunnel.example.org"),
        sent("localhost.example.org:8501"),
        sent("localhost@example.org:8501"),
        sent("localhost:x"),
        sent("localhost:9000"),
        sent("localhost"),
        {"Host": "localhost:8501", "Origin": "http://example.org"},
        {"Host": "localhost:8501", "Origin": "http://localhost:3000"},
        {"Host": "example.org", "Origin": "http://localhost:8501"},
    ],
)
def test_who_asks_for_another_name_is_a_visitor(
    headers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not visits(monkeypatch, headers)


@pytest.mark.parametrize(
    "name",
    [
        "Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "x-forwarded-proto", "X-Real-Ip", "Via", "CF-Ray",
        "Cf-Connecting-Ip",
    ],
)  # fmt: skip
def test_who_comes_through_another_server_is_a_visitor(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not visits(monkeypatch, sent("localhost:8501", **{name: "203.0.113.9"}))


@pytest.mark.parametrize(
    ("configured", "url", "goes"),
    [
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1", True),
        ("http://127.0.0.1:8000/v1/", " http://127.0.0.1:8000/v1", True),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8000/v1/../x", False),
        ("http://127.0.0.1:8000/v1", "http://127.0.0.1:8001/v1", False),
        ("http://127.0.0.1:8000/v1", "http://example.org/v1", False),
        ("", "http://127.0.0.1:8000/v1", False),
        ("", "", False),
    ],
)
def test_the_key_goes_to_the_operator_s_address_alone(
    configured: str, url: str, goes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADROOM_ENDPOINT_URL", configured)
    assert visits(monkeypatch, sent("localhost:8501"))
    assert measure_switch.endpoint_key_goes_to(url) is goes
    assert not visits(monkeypatch, sent("rebound.example.org:8501"))
    assert not measure_switch.endpoint_key_goes_to(url)
