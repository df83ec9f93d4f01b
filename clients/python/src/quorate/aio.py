"""The client for asyncio. Thousands of waits need no threads: each is one connection."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import ssl
from types import TracebackType
from typing import Any, Callable, Generator, Optional, Sequence, Union

from . import _wire
from ._validity import BaseLease, Validity
from ._wire import Endpoint, Failover, LockRequest, Reply, Request, Wait, now, read_reply
from .errors import Held, InvalidRequest, LeaseLost, QuorateError, ServiceError, Unavailable

OnLost = Optional[Callable[["AsyncLease"], None]]


class AsyncClient:
    """As ``Client``, for asyncio: ``async with client.lock("orders:42") as lease``."""

    def __init__(
        self,
        url: Union[str, Sequence[str]],
        token: Optional[str] = None,
        *,
        timeout: float = 5.0,
        ssl_context: Optional[ssl.SSLContext] = None,
        who: Optional[str] = None,
    ) -> None:
        self._who = _wire.default_who() if who is None else who
        self._sender = _Sender(Failover(_wire.endpoints(url)), token, timeout, ssl_context)

    def lock(
        self,
        name: str,
        ttl: float = 10.0,
        wait: Optional[float] = None,
        *,
        mode: str = "mutex",
        permits: Optional[int] = None,
        why: Optional[str] = None,
        identity: Optional[str] = None,
        on_lost: OnLost = None,
        renew: bool = True,
    ) -> Acquiring:
        """Acquires a lock: ``async with`` the result, or ``await`` it and call ``release``.

        Waits for it up to ``wait`` seconds, by default indefinitely, then raises ``Held``.
        ``mode`` is ``mutex``, ``read``, ``write`` or ``permits``. Cancelling leaves the queue.
        Calls with the same ``identity`` hold the lock at the same time.
        """
        request = LockRequest(name, ttl, mode, permits, self._who, why, identity)
        return Acquiring(self._sender, request, wait, on_lost, renew)

    async def try_lock(
        self,
        name: str,
        ttl: float = 10.0,
        *,
        mode: str = "mutex",
        permits: Optional[int] = None,
        why: Optional[str] = None,
        identity: Optional[str] = None,
        on_lost: OnLost = None,
        renew: bool = True,
    ) -> Optional[AsyncLease]:
        """Acquires the lock if it is free. Returns ``None`` if it is held."""
        request = LockRequest(name, ttl, mode, permits, self._who, why, identity)
        try:
            return await Acquiring(self._sender, request, 0, on_lost, renew)
        except Held:
            return None


class Acquiring:
    """A lock that is being acquired."""

    def __init__(
        self,
        sender: _Sender,
        request: LockRequest,
        wait: Optional[float],
        on_lost: OnLost,
        renew: bool,
    ) -> None:
        self._sender = sender
        self._request = request
        self._wait = wait
        self._on_lost = on_lost
        self._renew = renew
        self._lease: Optional[AsyncLease] = None

    def __await__(self) -> Generator[Any, None, AsyncLease]:
        return self._acquire().__await__()

    async def __aenter__(self) -> AsyncLease:
        self._lease = await self._acquire()
        return self._lease

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if self._lease is not None:
            await self._lease.__aexit__(kind, error, traceback)

    async def _acquire(self) -> AsyncLease:
        left, held = Wait(self._wait), None
        while True:
            wait = left.next(held)
            asked_at = now()
            try:
                attempt = self._request.http_request(wait)
                granted = await self._sender.send(attempt, self._sender.timeout, wait)
                break
            except Held as error:
                if self._wait == 0:
                    raise
                held = error
                # The service limits long waits: ask again, but not in a busy loop.
                await asyncio.sleep(min(max(asked_at + _wire.POLL_MIN - now(), 0), wait))
        if granted.valid_until() > now():
            return AsyncLease(self._sender, self._request, granted, self._on_lost, self._renew)
        with contextlib.suppress(QuorateError):
            release = _wire.release_request(str(granted.body["lease_id"]))
            await self._sender.send(release, self._sender.timeout)
        name = self._request.name
        raise LeaseLost(f"the lease of {name!r} expired before the response arrived")


class AsyncLossEvent(asyncio.Event):
    """Set when the lease is lost. ``is_set`` reads the clock, so it is never late."""

    def __init__(self, validity: Validity) -> None:
        super().__init__()
        self._validity = validity

    def is_set(self) -> bool:
        return super().is_set() or self._validity.is_lost()


class AsyncLease(BaseLease):
    """As ``Lease``, for asyncio. A task renews it."""

    def __init__(
        self, sender: _Sender, request: LockRequest, granted: Reply, on_lost: OnLost, renews: bool
    ) -> None:
        super().__init__(request.name, granted)
        self._ttl = request.ttl
        self._sender = sender
        self._on_lost = on_lost
        self.lost: asyncio.Event = AsyncLossEvent(self._validity)
        """Set when the lease is lost. It is not set by ``release``."""
        self._renews = renews
        self._sending = asyncio.Lock()
        self._task = asyncio.ensure_future(self._keep())

    async def downgrade(self) -> None:
        """Turns a write lease into a read lease, as ``Lease.downgrade``."""
        self.check()
        async with self._sending:
            if self._is_downgraded:
                return
            fence, self._fence = self._fence, None
            self._is_downgrading = True
            try:
                self._extended(await self._sender.send(self._extension(), self._sender.timeout))
            except InvalidRequest:
                self._fence, self._is_downgrading = fence, False
                raise
            except LeaseLost:
                self._validity.lose()
                if self._task.cancel():
                    # A new task reports the loss at once.
                    self._task = asyncio.ensure_future(self._keep())
                raise
        self.check()

    async def release(self) -> None:
        """Releases the lock, as ``Lease.release``."""
        if self._validity.is_released():
            return
        self._validity.release()
        self._task.cancel()
        try:
            if self._is_downgrading:
                # Only the id of the read lease can release it.
                self._extended(await self._sender.send(self._extension(), self._sender.timeout))
            await self._sender.send(_wire.release_request(self._id), self._sender.timeout)
        except QuorateError:
            if not self._validity.is_lost():
                raise
        if self._validity.is_lost():
            raise LeaseLost(f"the lease of {self.name!r} was lost before it was released")

    async def __aenter__(self) -> AsyncLease:
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        try:
            # Cancelling the block must not keep the lock from being released.
            await asyncio.shield(self.release())
        except LeaseLost:
            if error is None:
                raise
        except (ServiceError, Unavailable):
            pass  # The lease was valid to the end of the block. It expires by itself.

    async def _keep(self) -> None:
        """Renews the lease. Everything that it waits for is bounded by the deadline."""
        pause = self._ttl / 3
        while (left := self._validity.remaining()) > 0:
            await asyncio.sleep(min(pause, left) if self._renews else left)
            left = self._validity.remaining()
            if not self._renews or left == 0:
                continue
            timeout = _wire.attempt_timeout(left, len(self._sender), self._sender.timeout)
            try:
                await asyncio.wait_for(self._extend(timeout), left)
                pause = self._ttl / 3
            except LeaseLost:
                self._validity.lose()
            except asyncio.TimeoutError:
                pause = 0
            except QuorateError as error:
                pause = _wire.renew_pause(self._validity.remaining(), error)
        if self._validity.is_lost():
            self.lost.set()
            if self._on_lost is not None:
                self._on_lost(self)

    async def _extend(self, timeout: float) -> None:
        async with self._sending:
            self._extended(await self._sender.send(self._extension(), timeout))


class _Sender:
    """Sends requests, to the next endpoint if one does not serve them."""

    def __init__(
        self,
        failover: Failover,
        token: Optional[str],
        timeout: float,
        ssl_context: Optional[ssl.SSLContext],
    ) -> None:
        self.timeout = timeout
        self._failover = failover
        self._token = token
        self._ssl_context = ssl_context

    def __len__(self) -> int:
        return len(self._failover)

    async def send(self, request: Request, timeout: float, wait: float = 0.0) -> Reply:
        """``timeout`` is for each endpoint, ``wait`` for all of them together."""
        errors: list[tuple[Endpoint, Exception]] = []
        wait_until = now() + wait
        for endpoint in self._failover.order():
            limit = timeout + max(wait_until - now(), 0.0)
            try:
                reply = await asyncio.wait_for(self._send_to(endpoint, request), limit)
            except ServiceError as error:
                if not Failover.is_elsewhere(error):
                    raise
                errors.append((endpoint, error))
            except (OSError, http.client.HTTPException, asyncio.TimeoutError) as error:
                errors.append((endpoint, error))
            else:
                self._failover.prefer(endpoint)
                return reply
        raise Failover.failed(errors)

    async def _send_to(self, endpoint: Endpoint, request: Request) -> Reply:
        context = None
        if endpoint.is_tls:
            context = self._ssl_context or ssl.create_default_context()
        # Before anything is sent, so that the deadline is never too late.
        sent_at = now()
        reader, writer = await asyncio.open_connection(endpoint.host, endpoint.port, ssl=context)
        try:
            writer.write(_head(endpoint, request, self._token) + request.body)
            text = await _read_all(reader)
        finally:
            # Even when the caller is cancelled: the service then leaves the queue.
            writer.close()
        response = http.client.HTTPResponse(_Received(text))  # type: ignore[arg-type]
        response.begin()
        return read_reply(sent_at, response.status, response.read())


def _head(endpoint: Endpoint, request: Request, token: Optional[str]) -> bytes:
    host = f"[{endpoint.host}]" if ":" in endpoint.host else endpoint.host
    headers = {"Host": f"{host}:{endpoint.port}", "Content-Length": str(len(request.body))}
    headers.update(request.with_token(token))
    lines = [f"{request.method} {endpoint.base}{request.path} HTTP/1.1"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if any("\r" in text or "\n" in text for text in lines):
        raise ValueError("a URL and a token must not contain line breaks")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def _read_all(reader: asyncio.StreamReader) -> bytes:
    """Everything up to the end of the connection, which the service closes after its response."""
    parts, size = [], 0
    while part := await reader.read(1 << 16):
        parts.append(part)
        size += len(part)
        if size > _wire.RESPONSE_MAX:
            raise http.client.HTTPException("the response is too large")
    return b"".join(parts)


class _Received:
    """Bytes that were received, as what ``HTTPResponse`` reads from."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def makefile(self, mode: str) -> io.BytesIO:
        return io.BytesIO(self._text)
