from __future__ import annotations

import hmac
from typing import Any

import pytest

from optensemble.exceptions import InputError
from optensemble.serving import security
from optensemble.serving.security import COOKIE, Guard
from optensemble.serving.settings import Settings, hosts_for, require_token
from tests.serving.clients import TestClient
from tests.serving.conftest import Make
from tests.serving.worlds import rows

TOKEN = "a-token-of-some-length"
BEARER = {"Authorization": f"Bearer {TOKEN}"}


@pytest.fixture
def locked(served: Make) -> TestClient:
    return served(token=TOKEN)


def test_all_but_health_needs_the_token(locked: TestClient) -> None:
    for path in (
        "/status",
        "/certificate",
        "/monitor",
        "/metrics",
        "/readyz",
        "/openapi.json",
        "/events",
        "/nowhere",
        "/",
    ):
        answer = locked.get(path)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert locked.post("/decide", json={"rows": rows(0)}).status_code == 401
    assert locked.get("/healthz").status_code == 200
    assert locked.get("/status", headers=BEARER).status_code == 200
    assert locked.get("/status", headers={"Authorization": f"bearer  {TOKEN}"}).status_code == 200
    assert locked.post("/decide", json={"rows": rows(0)}, headers=BEARER).status_code == 200
    for wrong in (f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN, "Bearer", "Bearer ünsinn".encode()):
        assert locked.get("/status", headers={"Authorization": wrong}).status_code == 401


def test_tokens_are_compared_in_constant_time(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = list[tuple[bytes, bytes]]()

    own = hmac.compare_digest

    def compare(a: bytes, b: bytes) -> bool:
        compared.append((a, b))
        return own(a, b)

    monkeypatch.setattr(security.hmac, "compare_digest", compare)  # type: ignore[attr-defined]
    guard = Guard(Settings(token=TOKEN))
    guard.require_token("POST", {b"authorization": f"Bearer {TOKEN}".encode()})
    assert [tuple(map(len, pair)) for pair in compared] == [(32, 32)]
    assert all(isinstance(each, bytes) for pair in compared for each in pair)


def test_a_browser_signs_in(locked: TestClient) -> None:
    form = locked.get("/", headers={"Accept": "text/html"})
    assert 'action="/session"' in form.text
    assert "form-action 'self'" in form.headers["content-security-policy"]
    wrong = locked.post("/session", data={"token": "wrong"}, follow_redirects=False)
    assert wrong.status_code == 401
    assert "This is not the token." in wrong.text
    right = locked.post("/session", data={"token": TOKEN}, follow_redirects=False)
    assert (right.status_code, right.headers["location"]) == (303, "/")
    cookie = right.headers["set-cookie"]
    assert TOKEN not in cookie
    assert all(term in cookie for term in ("HttpOnly", "SameSite=Strict", "Path=/"))
    page = locked.get("/")
    assert page.status_code == 200
    assert "Decisions in service" in page.text
    assert locked.get("/status").status_code == 200  # a session looks,
    assert locked.post("/decide", json={"rows": rows(0)}).status_code == 401  # and does nothing


@pytest.mark.parametrize("change", ["expired", "forged", "other", "nonsense", "bad"])
def test_sessions_that_are_none(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    guard = Guard(Settings(token=TOKEN))
    made = guard.session_for(f"token={TOKEN}".encode())
    assert made is not None
    value = made.partition(";")[0].partition("=")[2]
    ends, _, signed = value.partition(".")
    if change == "expired":
        monkeypatch.setattr(security.time, "time", lambda: float(ends) + 1)  # type: ignore[attr-defined]
    cookie = {
        "forged": f"{int(ends) + 9}.{signed}",
        "other": (Guard(Settings(token=f"{TOKEN}!")).session_for(f"token={TOKEN}%21".encode()) or "").partition("=")[2],
        "nonsense": "x",
        "bad": '"\x01',
    }.get(change, value)
    headers = {b"cookie": f"{COOKIE}={cookie}".encode()}
    with pytest.raises(Exception, match="needs a token"):
        guard.require_token("GET", headers)


def test_forms_that_are_none(locked: TestClient) -> None:
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert locked.post("/session", content=b"\xff", headers=form).status_code == 400
    assert locked.post("/session", content=b"&" * 100, headers=form).status_code == 400
    assert locked.post("/session", json={"token": TOKEN}).status_code == 415


def test_other_hosts_and_origins_are_refused(client: TestClient) -> None:
    assert client.get("/status", headers={"Host": "evil.example"}).status_code == 400
    assert client.get("/healthz", headers={"Host": "evil.example"}).status_code == 400
    assert client.get("/status", headers={"Host": "TESTSERVER:99"}).status_code == 200
    for origin in ("http://evil.example", "null", "http://[", "https://testserver.evil"):
        assert client.get("/status", headers={"Origin": origin}).status_code == 403, origin
    assert client.get("/status", headers={"Origin": "http://testserver"}).status_code == 200


def test_names_of_hosts() -> None:
    assert hosts_for("127.0.0.1", ()) == ("localhost", "127.0.0.1", "[::1]")
    assert hosts_for("::1", ("Decisions.Local",)) == ("localhost", "127.0.0.1", "[::1]", "decisions.local")
    assert hosts_for("0.0.0.0", ()) is None
    assert "decisions" in (hosts_for("0.0.0.0", ("decisions",)) or ())


def test_other_machines_need_a_token() -> None:
    assert require_token(None, "T", "127.0.0.1") is None
    assert require_token(TOKEN, "T", "0.0.0.0") == TOKEN
    with pytest.raises(InputError, match=r"--host 0\.0\.0\.0 can be reached by other machines: a token is needed"):
        require_token("", "T", "0.0.0.0")
    for weak in ("short", "with spaces in it, and long", "ümlaute-sind-kein-ascii"):
        with pytest.raises(InputError, match="the token in T must have at least 16 characters"):
            require_token(weak, "T", "127.0.0.1")


def test_headers_of_every_answer(client: TestClient) -> None:
    answers: list[Any] = [client.get(path) for path in ("/", "/status", "/nowhere", "/metrics")]
    for answer in [*answers, client.post("/decide", content=b"x")]:
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["referrer-policy"] == "same-origin"
        assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        assert "access-control-allow-origin" not in answer.headers
    policy = client.get("/").headers["content-security-policy"]
    assert "script-src 'sha256-" in policy
    assert "connect-src 'self'" in policy


def test_settings_do_not_show_the_token() -> None:
    assert TOKEN not in repr(Settings(token=TOKEN))
