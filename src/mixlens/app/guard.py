"""Who is let in: the address that was asked for, who asks from where, and the token where others could reach it."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Awaitable, Callable, Collection, MutableMapping
from typing import Any
from urllib.parse import parse_qs, urlsplit

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import PlainTextResponse, RedirectResponse, Response

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
ADDRESS = 100_000  # bytes of an address: two texts in three bytes a character, percent-encoded, are less
HEADERS = {
    "Cache-Control": "no-store",
    "Content-Security-Policy": "frame-ancestors 'none'",  # what a page's own policy cannot say
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


class Guard:
    """Around an application: what is refused is refused in words, before anything of it is looked at.

    `hosts`: names by which the server may be called (a page of another site that has its own name resolve to this
    machine is not let in); None: any, for who has the `token`, which comes in the address once and in a cookie then.
    """

    def __init__(self, app: App, hosts: Collection[str] | None = LOOPBACK, token: str | None = None) -> None:
        self.app, self.hosts, self.token = app, hosts, token
        self.cookie = "mixlens-token"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or hand on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1003})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        answer = self.refusal(scope, Headers(scope=scope))
        await (answer or self.app)(scope, receive, send)

    def refusal(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to who is not let in, or None."""
        if scope["method"] not in ("GET", "HEAD"):
            return _no(405, f"expected GET, got {scope['method']}; a question stands in the address", Allow="GET, HEAD")
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            return _no(413, "expected no body, got one; a question stands in the address")
        if len(scope["query_string"]) > ADDRESS:
            got = len(scope["query_string"])
            return _no(414, f"expected an address of at most {ADDRESS:,} bytes, got {got:,}; ask of a shorter text")
        if not self.knows(headers.getlist("host")):
            return _no(
                421,
                "expected to be called by this machine's own name, as http://localhost, got another Host; where "
                "others are to reach the app, start it with --host",
            )
        if headers.get("sec-fetch-site") == "cross-site" and (
            headers.get("sec-fetch-mode"),
            headers.get("sec-fetch-dest"),
        ) != ("navigate", "document"):
            return _no(403, "a page of another site may link to this one, and not load it")
        return self.stranger(scope, headers)

    def knows(self, hosts: list[str]) -> bool:
        """Whether a request's Host is one of the names of this server, on whatever port (it may be forwarded)."""
        if len(hosts) != 1:
            return False
        try:
            name = urlsplit(f"//{hosts[0]}").hostname
        except ValueError:
            return False
        return name is not None and (self.hosts is None or name in self.hosts)

    def stranger(self, scope: Scope, headers: Headers) -> Response | None:
        """The answer to who comes without the token, and the cookie for who brings it in the address."""
        if self.token is None:
            return None
        sent = parse_qs(scope["query_string"].decode("latin-1")).get("token", [])
        if sent and self.same(sent[0]):
            answer = RedirectResponse(scope["path"], 303)
            answer.set_cookie(self.cookie, self.token, httponly=True, samesite="lax")
            return answer
        if self.same(cookie_parser(headers.get("cookie", "")).get(self.cookie, "")):
            return None
        return _no(401, "expected the token in the address that mixlens app has printed, got none or another")

    def same(self, token: str) -> bool:
        """Whether it is the token, in a time that says nothing of it."""
        return self.token is not None and secrets.compare_digest(token.encode(), self.token.encode())


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens there."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _no(status: int, words: str, **headers: str) -> Response:
    return PlainTextResponse(words + "\n", status, {**HEADERS, **headers})
