"""Errors. Every error of this package is a ``QuorateError`` and has a stable ``code``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Mapping, Optional


class QuorateError(Exception):
    """Base class of all errors of this package."""

    code: str = "error"


class Unavailable(QuorateError):
    """No URL of the service answered. An acquire may have succeeded: its lease then expires."""

    code = "unavailable"


class LeaseLost(QuorateError):
    """The lease has ended: it expired or was released. Another owner may hold the lock."""

    code = "lease_lost"


@dataclass(frozen=True)
class Holder:
    """The holder of a lock, as the nodes reported it."""

    who: str
    expires_in: Optional[float]
    """Seconds until the lock expires unless the holder renews it."""


class ServiceError(QuorateError):
    """The service rejected the request."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        self.code = str(problem.get("code", f"http_{status}"))
        self.status = status
        self.detail = str(problem.get("detail", f"HTTP status {status}"))
        after_ms = problem.get("retry_after_ms")
        self.retry_after: Optional[float] = None if after_ms is None else float(after_ms) / 1000
        """Seconds after which a retry makes sense, if the service suggests one."""
        super().__init__(f"{self.detail} ({self.code})")


class Held(ServiceError):
    """Another owner holds the lock, or held it for the whole wait."""

    def __init__(self, status: int, problem: Mapping[str, Any]) -> None:
        super().__init__(status, problem)
        self.holder: Optional[Holder] = None
        """The holder, if the service knows it."""
        holder = problem.get("holder")
        if isinstance(holder, dict):
            left_ms = holder.get("expires_in_ms")
            left = None if left_ms is None else float(left_ms) / 1000
            self.holder = Holder(str(holder.get("who", "")), left)


class NoQuorum(ServiceError):
    """Too few nodes answered to decide."""


class ShuttingDown(ServiceError):
    """The instance is shutting down."""


class Unauthorized(ServiceError):
    """The request has no valid token."""


class Forbidden(ServiceError):
    """The token does not allow this lock or this operation."""


class InvalidRequest(ServiceError):
    """The name, the ttl, the permits or another value is invalid."""


class IdempotencyConflict(ServiceError):
    """Another request with the same idempotency key holds the lock."""


class TooMany(ServiceError):
    """The token exceeds a limit: requests, waits or leases."""


def from_response(status: int, problem: Mapping[str, Any]) -> QuorateError:
    """The error for a response that is not a success."""
    code = problem.get("code")
    if code == "lease_lost":
        return LeaseLost(str(problem.get("detail", "the lease has ended")))
    known = _BY_CODE.get(str(code)) or _BY_STATUS.get(status, ServiceError)
    return known(status, problem)


_BY_CODE = {
    "held": Held,
    "no_quorum": NoQuorum,
    "shutting_down": ShuttingDown,
    "idempotency_conflict": IdempotencyConflict,
    "too_many": TooMany,
}
_BY_STATUS = {400: InvalidRequest, 401: Unauthorized, 403: Forbidden}
