"""The routes, and the server that answers them."""

from __future__ import annotations

import asyncio
import logging
import secrets
import socket
import threading
import time
import traceback
import webbrowser
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from mixlens.app import pages
from mixlens.app.guard import HEADERS, LOOPBACK, Guard, is_loopback
from mixlens.app.models import Models
from mixlens.app.pages import Took
from mixlens.app.questions import Question, known, pairs_of, question_of
from mixlens.app.uploads import BODY, Upload, form_of
from mixlens.app.verbs import VERBS, Verb
from mixlens.app.work import Dropped, Full, Tick, Work
from mixlens.errors import MixlensError, OverBudget, TooLong, UnknownOption

ROOM = 128  # questions that wait
HELD = 128_000_000  # bytes of files that are sent and wait
PATIENCE = 60.0  # seconds in which a file is to arrive
LOG = logging.getLogger("mixlens.app")


def application(
    models: Models,
    *,
    hosts: Collection[str] | None = LOOPBACK,
    token: str | None = None,
    room: int = ROOM,
    started: Callable[[], None] | None = None,
) -> Starlette:
    """The application: pages of each verb over the models.

    `hosts`, `token`: see `Guard`. `room`: questions that may wait. `started` is called when it is.
    """
    work, held = Work(room), _Held()

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        if started is not None:
            started()
        yield
        work.close()

    async def home(_: Request) -> Response:
        return RedirectResponse(f"/{next(iter(VERBS))}", 307, HEADERS)

    async def ask(request: Request) -> Response:
        verb = VERBS[request.url.path.strip("/")]
        if request.method != "POST":
            return await answer(request, verb, {}, partial(pairs_of, request.scope["query_string"]))
        size = int(request.headers["content-length"])
        if held.bytes + size > HELD:
            return _full(pages.page(verb, models, error=f"{_WAITS} try again in about {work.patience()} s"), work)
        held.bytes += size
        try:
            sent = form_of(request.headers["content-type"], request.stream())
            pairs, files = await asyncio.wait_for(sent, PATIENCE)
            return await answer(request, verb, files, lambda: pairs)
        except ClientDisconnect:
            return Response(status_code=499)
        except asyncio.TimeoutError:
            words = f"expected the file within {PATIENCE:.0f} s, got a part of it; try again, or send a smaller one"
            return _html(pages.page(verb, models, error=words), 408)
        except MixlensError as error:
            return _html(pages.page(verb, models, error=str(error)), _status(error))
        finally:
            held.bytes -= size

    async def answer(
        request: Request, verb: Verb, files: dict[str, Upload], read: Callable[[], list[tuple[str, str]]]
    ) -> Response:
        pairs = list[tuple[str, str]]()
        try:
            pairs = read()
            models.require(verb, dict(pairs).get("model", ""))
            if request.method != "POST" and (verb.file is not None or "text" not in dict(pairs)):
                for key, _ in pairs:
                    known(verb, key)
                return _html(pages.page(verb, models, pairs))
            question = question_of(verb.name, pairs, models.of(verb), files)
            loop, ready = asyncio.get_running_loop(), asyncio.Event()
            job = work.put(lambda tick: _answered(question, models, tick), lambda: _tell(loop, ready))
        except MixlensError as error:
            return _html(pages.page(verb, models, pairs, error=str(error)), _status(error))
        except Full:
            words = f"{work.room} questions wait already, which is as many as may;"
            return _full(pages.page(verb, models, pairs, error=f"{words} try again in about {work.patience()} s"), work)
        waits = [asyncio.ensure_future(ready.wait()), asyncio.ensure_future(_gone(request))]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            return _html(job.take()) if ready.is_set() else Response(status_code=499)  # nobody is there to read it
        except Dropped:
            return PlainTextResponse("the app is closing; start it again, and ask again\n", 503, HEADERS)
        except MixlensError as error:
            return _html(pages.page(verb, models, pairs, error=str(error)), _status(error))
        except Exception as error:
            words = f"unexpected {type(error).__name__}; the terminal in which mixlens app runs says more"
            return _html(pages.page(verb, models, pairs, error=words), 500)
        finally:
            for wait in waits:
                wait.cancel()
            work.drop(job)

    async def lost(request: Request, _: Exception) -> Response:
        path = request.url.path
        words = f"no page {path[:80]!r} here; there are {', '.join(f'/{name}' for name in VERBS)}"
        return _html(pages.page(next(iter(VERBS.values())), models, error=words), 404)

    posts = [f"/{verb.name}" for verb in VERBS.values() if verb.file is not None]
    return Starlette(
        routes=[Route("/", home), *(Route(f"/{name}", ask, methods=["GET", "POST"]) for name in VERBS)],
        middleware=[Middleware(Guard, hosts=hosts, token=token, posts=posts, body=BODY)],
        exception_handlers={404: lost},
        lifespan=life,
    )


@dataclass
class _Held:
    """How many bytes of files are here."""

    bytes: int = 0


_WAITS = "as many files wait already as may;"


def _full(page: str, work: Work) -> Response:
    return _html(page, 503, {"Retry-After": str(work.patience())})


def _answered(question: Question, models: Models, tick: Tick) -> str:
    """The page that answers. In the thread of the work."""
    tick()
    try:
        begin = time.perf_counter()
        lens = models.asked_by(question.verb, question.need("model"))
        loaded = time.perf_counter()
        result = question.verb.run(lens, question, tick)
        took = Took(result, loaded - begin, time.perf_counter() - loaded)
        return pages.page(question.verb, models, question.values, question=question, answer=took)
    except (MixlensError, Dropped):
        raise
    except Exception:
        LOG.error("%s", traceback.format_exc())
        raise


def _tell(loop: asyncio.AbstractEventLoop, ready: asyncio.Event) -> None:
    """Set an event of a loop's thread from another one; nobody is told where the loop is closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(ready.set)


async def _gone(request: Request) -> None:
    """Returns when who has asked is no longer there."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _status(error: MixlensError) -> int:
    return 413 if isinstance(error, (TooLong, OverBudget)) else 400


def _html(page: str, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return HTMLResponse(page, status, {**HEADERS, **(headers or {})})


def serve(
    models: Models,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    say: Callable[[str], None] = print,
    show: bool = False,
) -> None:
    """Serve until interrupted; `say` is told the address, which `show` opens in a browser.

    Where another machine may reach `host`, the address holds a token. Raises UnknownOption.
    """
    outside = not is_loopback(host)
    token = secrets.token_urlsafe(24) if outside else None
    listener = _listening(host, port)
    name = socket.gethostname() if host in ("0.0.0.0", "::") else host
    place = f"http://{f'[{name}]' if ':' in name else name}:{listener.getsockname()[1]}/"
    address = f"{place}?token={token}" if token else place

    def started() -> None:
        say(f"mixlens is at {address}" + ("" if outside else " (this machine alone)") + "; Ctrl-C ends it")
        if show:
            threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

    app: Any = application(models, hosts=None if outside else {*LOOPBACK, host}, token=token, started=started)
    settings: dict[str, Any] = {"http": "h11", "h11_max_incomplete_event_size": 1 << 18, "ws": "none"}
    settings |= {"access_log": False, "log_level": "error", "server_header": False, "limit_concurrency": 1000}
    settings["timeout_keep_alive"] = 75  # longer than a queue of short questions takes
    config = uvicorn.Config(app, lifespan="on", timeout_graceful_shutdown=1, **settings)
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:  # as it is meant to be ended
        return


def _listening(host: str, port: int) -> socket.socket:
    """A socket there. Raises UnknownOption."""
    listener = None
    try:
        family, kind, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(place)
        listener.listen(2048)
    except (OSError, OverflowError) as error:
        if listener is not None:
            listener.close()
        raise UnknownOption(
            f"expected a host= of this machine and a port= that is free, got {host!r} and {port}: {error}"
        ) from None
    return listener
