"""The client for threads."""

from __future__ import annotations

import http.client
import ssl
import time
from typing import Callable, Optional, Sequence, Union

from . import _wire
from ._lease import Lease
from ._wire import Endpoint, Failover, LockRequest, Reply, Request, Wait, now, read_reply
from .errors import Held, LeaseLost, QuorateError, ServiceError

OnLost = Optional[Callable[[Lease], None]]


class Client:
    """A client of the service. It may be used from several threads.

    ``url`` is one URL, or several of instances that share their nodes: a request that one of them
    does not serve goes to the next one. All durations are in seconds.

    ``timeout`` limits one attempt to reach one instance. The time to wait for a lock is added.
    """

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
        why: Optional[str] = None,
        identity: Optional[str] = None,
        on_lost: OnLost = None,
        renew: bool = True,
    ) -> Lease:
        """Acquires a lock that one owner holds.

        Waits for it up to ``wait`` seconds, by default indefinitely, then raises ``Held``.
        ``on_lost`` is called from another thread when the lease is lost. Calls with the same
        ``identity`` hold the lock at the same time, each with a lease of its own.
        """
        return self._acquire(name, "mutex", None, ttl, wait, why, on_lost, renew, identity)

    def write(
        self,
        name: str,
        ttl: float = 10.0,
        wait: Optional[float] = None,
        *,
        why: Optional[str] = None,
        identity: Optional[str] = None,
        on_lost: OnLost = None,
        renew: bool = True,
    ) -> Lease:
        """Acquires the lock exclusively, against readers and writers."""
        return self._acquire(name, "write", None, ttl, wait, why, on_lost, renew, identity)

    def read(
        self,
        name: str,
        ttl: float = 10.0,
        wait: Optional[float] = None,
        *,
        why: Optional[str] = None,
        on_lost: OnLost = None,
        renew: bool = True,
    ) -> Lease:
        """Acquires the lock together with other readers. The lease has no fence."""
        return self._acquire(name, "read", None, ttl, wait, why, on_lost, renew)

    def permit(
        self,
        name: str,
        permits: int,
        ttl: float = 10.0,
        wait: Optional[float] = None,
        *,
        why: Optional[str] = None,
        on_lost: OnLost = None,
        renew: bool = True,
    ) -> Lease:
        """Acquires one of ``permits`` permits. All owners must use the same number."""
        return self._acquire(name, "permits", permits, ttl, wait, why, on_lost, renew)

    def try_lock(
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
    ) -> Optional[Lease]:
        """Acquires the lock if it is free. Returns ``None`` if it is held.

        ``mode`` is ``mutex``, ``read``, ``write`` or ``permits``.
        """
        try:
            return self._acquire(name, mode, permits, ttl, 0, why, on_lost, renew, identity)
        except Held:
            return None

    def _acquire(
        self,
        name: str,
        mode: str,
        permits: Optional[int],
        ttl: float,
        wait: Optional[float],
        why: Optional[str],
        on_lost: OnLost,
        renew: bool,
        identity: Optional[str] = None,
    ) -> Lease:
        request = LockRequest(name, ttl, mode, permits, self._who, why, identity)
        left, held = Wait(wait), None
        while True:
            request_wait = left.next(held)
            asked_at = now()
            try:
                attempt = request.http_request(request_wait)
                granted = self._sender.send(attempt, self._sender.timeout, request_wait)
                break
            except Held as error:
                if wait == 0:
                    raise
                held = error
                # The service limits long waits: ask again, but not in a busy loop.
                time.sleep(min(max(asked_at + _wire.POLL_MIN - now(), 0), request_wait))
        if granted.valid_until() <= now():
            self._release(granted)
            raise LeaseLost(f"the lease of {name!r} expired before the response arrived")
        return Lease(self._sender, name, ttl, granted, on_lost, renew)

    def _release(self, granted: Reply) -> None:
        try:
            lease_id = str(granted.body["lease_id"])
            self._sender.send(_wire.release_request(lease_id), self._sender.timeout)
        except QuorateError:
            pass  # The lease expires by itself.


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

    def send(self, request: Request, timeout: float, wait: float = 0.0) -> Reply:
        """``timeout`` is for each endpoint, ``wait`` for all of them together."""
        errors: list[tuple[Endpoint, Exception]] = []
        wait_until = now() + wait
        for endpoint in self._failover.order():
            limit = timeout + max(wait_until - now(), 0.0)
            try:
                reply = self._send_to(endpoint, request, limit)
            except ServiceError as error:
                if not Failover.is_elsewhere(error):
                    raise
                errors.append((endpoint, error))
            except (OSError, http.client.HTTPException) as error:
                errors.append((endpoint, error))
            else:
                self._failover.prefer(endpoint)
                return reply
        raise Failover.failed(errors)

    def _send_to(self, endpoint: Endpoint, request: Request, timeout: float) -> Reply:
        connection: http.client.HTTPConnection
        if endpoint.is_tls:
            context = self._ssl_context or ssl.create_default_context()
            connection = http.client.HTTPSConnection(
                endpoint.host, endpoint.port, timeout=timeout, context=context
            )
        else:
            connection = http.client.HTTPConnection(endpoint.host, endpoint.port, timeout=timeout)
        # Before anything is sent, so that the deadline is never too late.
        sent_at = now()
        try:
            headers = request.with_token(self._token)
            connection.request(request.method, endpoint.base + request.path, request.body, headers)
            response = connection.getresponse()
            return read_reply(sent_at, response.status, response.read(_wire.RESPONSE_MAX))
        finally:
            connection.close()
