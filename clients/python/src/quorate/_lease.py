"""A held lock, renewed by a thread, and its loss."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Callable, Optional, Protocol

from ._validity import BaseLease, Validity
from ._wire import Reply, Request, attempt_timeout, release_request, renew_pause, renew_request
from .errors import LeaseLost, QuorateError, ServiceError, Unavailable


class LossEvent(threading.Event):
    """Set when the lease is lost. ``is_set`` looks at the clock and never lags behind it."""

    def __init__(self, validity: Validity) -> None:
        super().__init__()
        self._validity = validity

    def is_set(self) -> bool:
        return super().is_set() or self._validity.is_lost()


class Sender(Protocol):
    """What sends requests."""

    timeout: float

    def send(self, request: Request, timeout: float) -> Reply: ...

    def __len__(self) -> int: ...


class Lease(BaseLease):
    """A held lock. Use it as a context manager, or call ``release`` when done.

    A thread renews it. Check it before every write to what the lock protects, or pass ``fence``
    along with the write.
    """

    def __init__(
        self,
        sender: Sender,
        name: str,
        ttl: float,
        granted: Reply,
        on_lost: Optional[Callable[[Lease], None]],
        renews: bool,
    ) -> None:
        super().__init__(name, granted)
        self._sender = sender
        self._ttl = ttl
        self._on_lost = on_lost
        self._has_ended = threading.Event()
        self.lost: threading.Event = LossEvent(self._validity)
        """Set when the lease is lost. It is not set by ``release``."""
        for work in [self._watch, self._renew] if renews else [self._watch]:
            threading.Thread(target=work, name=f"quorate {name}", daemon=True).start()

    def release(self) -> None:
        """Releases the lock. The second call does nothing.

        Raises ``LeaseLost`` if the lease ended before, and ``Unavailable`` or ``NoQuorum`` if the
        release is not confirmed: the lock then expires by itself.
        """
        if self._validity.is_released():
            return
        self._validity.release()
        self._has_ended.set()
        try:
            # Also if the lease was lost: a late renewal may have extended it on the nodes.
            self._sender.send(release_request(self._id), self._sender.timeout)
        except QuorateError:
            if not self._validity.is_lost():
                raise
        if self._validity.is_lost():
            raise LeaseLost(f"the lease of {self.name!r} was lost before it was released")

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        try:
            self.release()
        except LeaseLost:
            # The block itself did not fail, but it may have run without the lock.
            if error is None:
                raise
        except (ServiceError, Unavailable):
            pass  # The lease was valid to the end of the block. It expires by itself.

    def _watch(self) -> None:
        """Reports the loss at the deadline, even while a renewal is in progress."""
        while (left := self._validity.remaining()) > 0:
            self._has_ended.wait(left)
        if self._validity.is_lost():
            self.lost.set()
            if self._on_lost is not None:
                self._on_lost(self)

    def _renew(self) -> None:
        pause = self._ttl / 3
        while not self._has_ended.wait(pause) and (left := self._validity.remaining()) > 0:
            timeout = attempt_timeout(left, len(self._sender), self._sender.timeout)
            try:
                self._validity.extend(self._sender.send(renew_request(self._id), timeout))
                pause = self._ttl / 3
            except LeaseLost:
                self._validity.lose()
                self._has_ended.set()
            except QuorateError as error:
                pause = renew_pause(self._validity.remaining(), error)
