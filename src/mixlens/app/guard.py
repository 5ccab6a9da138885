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
POSTED = "multipart/form-data"
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
    `posts`: the paths to which a form with a file may be sent, of at most `body` bytes, by a page of this server.
    """

    def __init__(
        self,
        app: App,
        hosts: Collection[str] | None = LOOPBACK,
        token: str | None = None,
        posts: Collection[str] = (),
        body: int = 0,
    ) -> None:
        self.app, self.hosts, self.token, self.posts, self.body = app, hosts, token, posts, body
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
        posted = scope["method"] == "POST" and scope["path"] in self.posts
        if not posted and scope["method"] not in ("GET", "HEAD"):
            allowed = "GET, HEAD, POST" if scope["path"] in self.posts else "GET, HEAD"
            return _no(405, f"expected GET, got {scope['method']}; a question stands in the address", Allow=allowed)
        if not posted and (headers.get("content-length", "0") != "0" or "transfer-encoding" in headers):
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
        return self.stranger(scope, headers) or (self.unfit(headers) if posted else None)

    def unfit(self, headers: Headers) -> Response | None:
        """The answer to a form that another site's page has sent, or that is not taken, before it is read."""
        origin = headers.get("origin", "null")  # null: as a browser that says no referrer sends it
        strange = origin != "null" and urlsplit(origin).netloc != headers.get("host")
        if strange or headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            return _no(403, "a page of another site may link to this one, and send it nothing")
        if headers.get("content-type", "").partition(";")[0].strip().lower() != POSTED:
            return _no(415, f"expected a form as {POSTED}, which holds the file, got another Content-Type")
        length = headers.get("content-length", "")
        if "transfer-encoding" in headers or not (length.isascii() and length.isdigit()):
            return _no(411, "expected a form with its Content-Length, got one without")
        if len(length) > 15 or int(length) > self.body:
            return _no(413, f"expected a form of at most {self.body:,} bytes, got {length:.20}; send a smaller file")
        return None

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
