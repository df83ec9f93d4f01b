"""The HTTP API as data: requests, replies and deadlines. No I/O, so both clients share it."""

from __future__ import annotations

import json
import math
import os
import socket
import time
import uuid
from dataclasses import dataclass, field
from typing import Any, Mapping, Optional, Sequence, Union
from urllib.parse import quote, urlsplit

from .errors import Held, QuorateError, ServiceError, Unavailable, from_response

USER_AGENT = "quorate-python/0.1.0"

REQUEST_WAIT_MAX = 60.0
"""Longest wait of one request, in seconds. Longer waits take several requests."""

POLL_MIN = 0.1
"""Shortest time between two requests of one wait, in case the service does not wait at all."""

DRIFT = 0.0005
"""Part of a duration by which this clock and that of the service may disagree."""

RESPONSE_MAX = 1 << 20

_CLOCK = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


def now() -> float:
    """Seconds on a clock that cannot be set and that counts suspended time."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)


@dataclass(frozen=True)
class Endpoint:
    """One URL of the service."""

    url: str
    is_tls: bool
    host: str
    port: int
    base: str

    @staticmethod
    def parse(url: str) -> Endpoint:
        wrong = ValueError(f"invalid service URL {url!r}: use a form such as http://host:8420")
        parts = urlsplit(url)
        try:
            port = parts.port
        except ValueError:
            raise wrong from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise wrong
        if parts.username or parts.query or parts.fragment:
            raise ValueError("a service URL must not contain credentials, a query or a fragment")
        is_tls = parts.scheme == "https"
        port = port or (443 if is_tls else 80)
        return Endpoint(url, is_tls, parts.hostname, port, parts.path.rstrip("/"))


def endpoints(urls: Union[str, Sequence[str]]) -> list[Endpoint]:
    listed = [urls] if isinstance(urls, str) else list(urls)
    if not listed:
        raise ValueError("at least one service URL is required")
    return [Endpoint.parse(url) for url in listed]


@dataclass(frozen=True)
class Request:
    """One request, which may be sent to several endpoints."""

    method: str
    path: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)

    def with_token(self, token: Optional[str]) -> dict[str, str]:
        headers = {"User-Agent": USER_AGENT, "Connection": "close", **self.headers}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        return headers


@dataclass(frozen=True)
class LockRequest:
    """The lock to acquire, and how to hold it."""

    name: str
    ttl: float
    mode: str
    permits: Optional[int]
    who: Optional[str]
    why: Optional[str]
    identity: Optional[str] = None

    def __post_init__(self) -> None:
        if not self.name:
            raise ValueError("the name of a lock must not be empty")
        if not (math.isfinite(self.ttl) and self.ttl > 0):
            raise ValueError(f"invalid ttl {self.ttl!r}: use a positive number of seconds")

    def http_request(self, wait: float) -> Request:
        """A new request with its own idempotency key: if it is sent again, it gets the same
        lease."""
        values = {
            "ttl_ms": math.ceil(self.ttl * 1000),
            "wait_ms": math.ceil(wait * 1000),
            "mode": self.mode,
            "permits": self.permits,
            "who": self.who,
            "why": self.why,
            "identity": self.identity,
        }
        present = {name: value for name, value in values.items() if value is not None}
        headers = {"Content-Type": "application/json", "Idempotency-Key": uuid.uuid4().hex}
        path = f"/v1/locks/{quote(self.name, safe='')}/acquire"
        return Request("POST", path, json.dumps(present).encode(), headers)


def renew_request(lease_id: str) -> Request:
    return Request("POST", f"/v1/leases/{lease_id}/renew")


def downgrade_request(lease_id: str) -> Request:
    return Request("POST", f"/v1/leases/{lease_id}/downgrade")


def release_request(lease_id: str) -> Request:
    return Request("DELETE", f"/v1/leases/{lease_id}")


@dataclass(frozen=True)
class Reply:
    """A response, and when its request was sent."""

    sent_at: float
    body: Mapping[str, Any]

    def valid_until(self) -> float:
        """The deadline of the lease. It counts from before the request was
        sent, so neither a slow response nor a pause of this process extends it."""
        lasts = (self.body["waited_ms"] + self.body["valid_for_ms"]) / 1000
        return self.sent_at + float(lasts) * (1 - DRIFT)


def read_reply(sent_at: float, status: int, body: bytes) -> Reply:
    """The reply in a response; raises the error that the response reports."""
    try:
        parsed = json.loads(body) if body else {}
    except ValueError:
        parsed = {}
    values = parsed if isinstance(parsed, dict) else {}
    if status == 204:
        return Reply(sent_at, values)
    if status != 200:
        raise from_response(status, values)
    if not all(isinstance(values.get(name), int) for name in ("waited_ms", "valid_for_ms")):
        detail = "the response is not one of a Quorate service: check the URL"
        raise ServiceError(status, {"code": "invalid_response", "detail": detail})
    return Reply(sent_at, values)


class Failover:
    """Which endpoints to try, and which error to report if none of them serves the request."""

    def __init__(self, listed: Sequence[Endpoint]) -> None:
        self._endpoints = list(listed)
        self._preferred = 0

    def __len__(self) -> int:
        return len(self._endpoints)

    def order(self) -> list[Endpoint]:
        """All endpoints, beginning with the last one that served a request."""
        at = self._preferred
        return self._endpoints[at:] + self._endpoints[:at]

    def prefer(self, endpoint: Endpoint) -> None:
        self._preferred = self._endpoints.index(endpoint)

    @staticmethod
    def is_elsewhere(error: ServiceError) -> bool:
        """True if another endpoint may serve the request."""
        return error.status in (502, 503, 504)

    @staticmethod
    def failed(errors: Sequence[tuple[Endpoint, Exception]]) -> QuorateError:
        """The error to report: an error of the service takes precedence over one of the network."""
        for _, error in reversed(errors):
            if isinstance(error, ServiceError):
                return error
        causes = "; ".join(f"{at.url}: {error or type(error).__name__}" for at, error in errors)
        return Unavailable(f"the service does not answer: {causes}")


class Wait:
    """The remaining wait of a caller."""

    def __init__(self, wait: Optional[float]) -> None:
        if wait is not None and not wait >= 0:
            raise ValueError(f"invalid wait {wait!r}: use seconds, or None to wait indefinitely")
        self._until = None if wait is None else now() + wait
        self._is_first = True

    def next(self, held: Optional[Held]) -> float:
        """The wait of the next request. Raises ``held``, the last answer, when time is up."""
        left = math.inf if self._until is None else max(self._until - now(), 0.0)
        if not self._is_first and left == 0.0 and held is not None:
            raise held
        self._is_first = False
        return min(left, REQUEST_WAIT_MAX)


def attempt_timeout(remaining: float, count: int, timeout: float) -> float:
    """The time for one attempt to renew: time must remain for the other endpoints."""
    return max(min(timeout, remaining / (count + 1)), 0.001)


def renew_pause(remaining: float, error: QuorateError) -> float:
    """The pause after a failed renewal."""
    after = error.retry_after if isinstance(error, ServiceError) else None
    return min(max(after or 0.0, 0.05), remaining / 4)


def default_who() -> str:
    return f"{socket.gethostname()}/{os.getpid()}"
