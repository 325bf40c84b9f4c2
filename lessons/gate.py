"""Lets in who has the token. One key for the index and every lesson: marimo alone would ask for it at each.

The address with `?access_token=` is answered with a cookie and the same address without it. From then on the cookie counts, and
each request goes on to marimo with the token that marimo asks for.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Awaitable, Callable, MutableMapping
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]
LESSON = re.compile(r"/\d+/?")
CLOSED = ("<!DOCTYPE html><meta charset='utf-8'><meta name='viewport' content='width=device-width'>"
          "<title>Lessons</title><link rel='icon' href='data:,'><p>Open the whole address that "
          "<code>tinygrad-tf lessons</code> has printed, with its token.</p>")  # fmt: skip


class Gate:
    """An ASGI application in front of another."""

    def __init__(self, inside: Callable[[Scope, Receive, Send], Awaitable[None]], token: str, port: int):
        self.inside, self.token, self.cookie = inside, token, f"tinygrad_tf_lessons_{port}"
        self.hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            return await self.inside(scope, receive, send)
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        query = dict(parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True))
        if not self._from_here(headers):
            return await self._refuse(scope, send)
        given = query.pop("access_token", None)
        if given is not None and scope["type"] == "http" and self._is_token(given):
            cookie = f"{self.cookie}={self.token}; Path=/; HttpOnly; SameSite=Lax"
            return await _answer(send, 303, location=_address(scope["path"], query), set_cookie=cookie)
        if not self._is_token(self._cookie_of(headers)):
            return await self._refuse(scope, send)
        if scope["type"] == "http" and LESSON.fullmatch(scope["path"]) and "show-code" not in query:
            address = _address(scope["path"].rstrip("/") + "/", {**query, "show-code": "true"})
            return await _answer(send, 303, location=address)
        kept = [pair for pair in scope["headers"] if pair[0].lower() != b"authorization"]
        await self.inside({**scope, "headers": [*kept, (b"authorization", b"Bearer " + self.token.encode())]}, receive, send)

    def _from_here(self, headers: dict[str, str]) -> bool:
        """Whether the request is meant for this address, not for a name that leads to it, and comes from no other page."""
        origin = headers.get("origin")
        return headers.get("host") in self.hosts and (origin is None or origin == f"http://{headers['host']}")

    def _cookie_of(self, headers: dict[str, str]) -> str:
        try:
            jar = SimpleCookie(headers.get("cookie", ""))
        except CookieError:
            return ""
        return jar[self.cookie].value if self.cookie in jar else ""

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())

    async def _refuse(self, scope: Scope, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await _answer(send, 403, CLOSED)


def _address(path: str, query: dict[str, str]) -> str:
    path = "/" + path.lstrip("/")  # two of them would be another machine
    return path + (f"?{urlencode(query)}" if query else "")


async def _answer(send: Send, status: int, body: str = "", **headers: str) -> None:
    said = {"content-type": "text/html; charset=utf-8", "cache-control": "no-store", **headers}
    pairs = [(name.replace("_", "-").encode(), value.encode("latin-1", "replace")) for name, value in said.items()]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body.encode("utf-8")})
