"""Who is let in to the served lessons: this machine, with the token, and no page of another place."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from lessons.gate import Gate

TOKEN, PORT = "secret-token", 2725
COOKIE = f"tinygrad_tf_lessons_{PORT}={TOKEN}"


def ask(path="/5/", query="show-code=true", kind="http", method="GET", host=f"127.0.0.1:{PORT}", **headers):
    """(what the gate sent, the scope that reached the inside or None)."""
    sent, reached = [], []

    async def inside(scope, receive, send):
        reached.append(scope)

    async def send(message):
        sent.append(message)

    pairs = [("host", host), *((name.replace("_", "-"), value) for name, value in headers.items())]
    scope = {"type": kind, "path": path, "method": method, "query_string": query.encode("utf-8"),
             "headers": [(name.encode(), value.encode("utf-8")) for name, value in pairs]}  # fmt: skip
    with ThreadPoolExecutor(1) as other:  # in this thread a loop may run: that of a browser that another test uses
        other.submit(asyncio.run, Gate(inside, TOKEN, PORT)(scope, None, send)).result()
    return sent, (reached or [None])[0]


def status(sent):
    return sent[0].get("status", sent[0].get("code"))


def header(sent, name):
    return dict(sent[0]["headers"]).get(name.encode(), b"").decode()


def test_the_printed_address_gives_a_cookie_and_leads_to_one_without_the_token():
    sent, reached = ask("/5/", f"access_token={TOKEN}")
    assert status(sent) == 303 and reached is None and header(sent, "location") == "/5/"
    assert header(sent, "set-cookie") == f"{COOKIE}; Path=/; HttpOnly; SameSite=Lax"


def test_a_lesson_is_shown_with_its_code():
    sent, reached = ask("/5", "", cookie=COOKIE)
    assert status(sent) == 303 and reached is None and header(sent, "location") == "/5/?show-code=true"


@pytest.mark.parametrize(
    "path,query", [("/", ""), ("/5/", "show-code=true"), ("/5/assets/x.js", ""), ("/5/", "show-code=false")]
)
def test_the_cookie_opens_and_marimo_gets_the_token_it_asks_for(path, query):
    sent, reached = ask(path, query, cookie=f"other=1; {COOKIE}", authorization="Bearer of-another")
    assert not sent and [pair for pair in reached["headers"] if pair[0] == b"authorization"] == [
        (b"authorization", b"Bearer secret-token")
    ]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"cookie": COOKIE[:-1]},
        {"cookie": COOKIE + "x"},
        {"cookie": "tinygrad_tf_lessons_1=secret-token"},
        {"cookie": "\x00="},
        {"query": "access_token=wrong"},
        {"query": "access_token="},
        {"query": "access_token=é"},
        {"cookie": COOKIE, "host": "lessons.example:2725"},
        {"cookie": COOKIE, "host": "127.0.0.1:80"},
        {"cookie": COOKIE, "origin": "http://127.0.0.1:8888"},
        {"cookie": COOKIE, "origin": "null"},
        {"query": f"access_token={TOKEN}", "host": "lessons.example"},
        {"authorization": f"Bearer {TOKEN}"},
    ],
)
def test_everything_else_is_refused(change):
    sent, reached = ask(**change)
    assert status(sent) == 403 and reached is None and TOKEN not in str(sent)
    sent, reached = ask("/5/ws", kind="websocket", **change)
    assert sent == [{"type": "websocket.close", "code": 1008}] and reached is None


def test_the_page_may_talk_to_its_own_server():
    _, reached = ask("/5/ws", "", kind="websocket", cookie=COOKIE, origin=f"http://127.0.0.1:{PORT}")
    assert reached is not None
    _, reached = ask("/5/api/x", "", method="POST", cookie=COOKIE, origin=f"http://127.0.0.1:{PORT}")
    assert reached is not None


def test_an_address_never_leads_to_another_machine():
    sent, _ = ask("//example.com/", f"access_token={TOKEN}")
    assert header(sent, "location") == "/example.com/"
