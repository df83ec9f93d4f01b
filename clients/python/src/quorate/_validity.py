"""The validity of a lease. All safety rules of the client are here."""

from __future__ import annotations

import threading
from typing import Optional

from ._wire import Reply, Request, downgrade_request, now, renew_request
from .errors import LeaseLost


class Validity:
    """Held, then lost or released. A lease that has ended never becomes valid again."""

    def __init__(self, granted: Reply) -> None:
        self._lock = threading.Lock()
        self._until = granted.valid_until()
        self._is_lost = False
        self._is_released = False

    def remaining(self) -> float:
        """Seconds left; zero once the lease has ended."""
        with self._lock:
            return 0.0 if self._has_ended() else max(self._until - now(), 0.0)

    def is_lost(self) -> bool:
        with self._lock:
            return self._has_ended() and self._is_lost

    def is_released(self) -> bool:
        with self._lock:
            return self._is_released

    def extend(self, renewed: Reply) -> None:
        """Ignored if the lease has ended, no matter how late that is noticed."""
        with self._lock:
            if not self._has_ended():
                self._until = renewed.valid_until()

    def lose(self) -> None:
        with self._lock:
            self._is_lost = self._is_lost or not self._is_released

    def release(self) -> None:
        """Ends the lease by a release. A lost lease stays lost."""
        with self._lock:
            self._has_ended()
            self._is_released = True

    def _has_ended(self) -> bool:
        if not self._is_released and now() >= self._until:
            self._is_lost = True
        return self._is_lost or self._is_released


class BaseLease:
    """The common part of the leases of both clients."""

    def __init__(self, name: str, granted: Reply) -> None:
        self.name = name
        self._id = str(granted.body["lease_id"])
        self._fence: Optional[int] = granted.body.get("fence")
        self._validity = Validity(granted)
        self._is_downgrading = False
        self._is_downgraded = False

    @property
    def fence(self) -> int:
        """Grows with every exclusive holder of the lock. Readers have none."""
        if self._fence is None:
            raise AttributeError(f"the lease of {self.name!r} has no fence: readers have none")
        return self._fence

    @property
    def lease_id(self) -> str:
        """Renews and releases the lease. It is a secret. A downgrade changes it."""
        return self._id

    def remaining(self) -> float:
        """Seconds until the lease ends unless it is renewed. Zero once it is lost or released."""
        return self._validity.remaining()

    def check(self) -> None:
        """Raises ``LeaseLost`` unless the lease is valid right now."""
        if self._validity.remaining() > 0:
            return
        if self._validity.is_lost():
            raise LeaseLost(f"the lease of {self.name!r} was lost: another owner may hold the lock")
        raise LeaseLost(f"the lease of {self.name!r} was released")

    def _extension(self) -> Request:
        """The request that extends the lease. The nodes may have executed a downgrade without
        confirming it, so it is repeated until it is confirmed. It also extends the lease."""
        return downgrade_request(self._id) if self._is_downgrading else renew_request(self._id)

    def _extended(self, reply: Reply) -> None:
        """Takes over the reply to ``_extension``."""
        if self._is_downgrading:
            self._id = str(reply.body["lease_id"])
            self._is_downgrading, self._is_downgraded = False, True
        self._validity.extend(reply)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.name!r}, {self.remaining():.3f} s left>"
