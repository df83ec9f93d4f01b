"""A held lock, renewed by a thread, and its loss."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Callable, Optional, Protocol

from ._validity import BaseLease, Validity
from ._wire import Reply, Request, attempt_timeout, release_request, renew_pause
from .errors import InvalidRequest, LeaseLost, QuorateError, ServiceError, Unavailable


class LossEvent(threading.Event):
    """Set when the lease is lost. ``is_set`` reads the clock, so it is never late."""

    def __init__(self, validity: Validity) -> None:
        super().__init__()
        self._validity = validity

    def is_set(self) -> bool:
        return super().is_set() or self._validity.is_lost()


class Sender(Protocol):
    """Sends requests."""

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
        self._sending = threading.Lock()
        """Held while a renewal or a downgrade is in progress: only one may be."""
        self.lost: threading.Event = LossEvent(self._validity)
        """Set when the lease is lost. It is not set by ``release``."""
        for work in [self._watch, self._renew] if renews else [self._watch]:
            threading.Thread(target=work, name=f"quorate {name}", daemon=True).start()

    def downgrade(self) -> None:
        """Turns a write lease into a read lease. No other writer holds the lock in between.

        Stop writing before the call: other readers may join at once. The lease has no fence
        afterwards, and another ``lease_id``. The second call does nothing.

        Raises ``InvalidRequest`` if this is not a write lease; nothing has changed then. Raises
        ``LeaseLost`` if the lease has ended. After any other error the downgrade may have happened:
        renewals repeat it, and so does another call.
        """
        self.check()
        with self._sending:
            if self._is_downgraded:
                return
            fence, self._fence = self._fence, None
            self._is_downgrading = True
            try:
                self._extended(self._sender.send(self._extension(), self._sender.timeout))
            except InvalidRequest:
                self._fence, self._is_downgrading = fence, False
                raise
            except LeaseLost:
                self._validity.lose()
                self._has_ended.set()
                raise
        self.check()

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
            if self._is_downgrading:
                # Only the id of the read lease can release it.
                self._extended(self._sender.send(self._extension(), self._sender.timeout))
            # Even if the lease was lost: a late renewal may have extended it on the nodes.
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
                with self._sending:
                    self._extended(self._sender.send(self._extension(), timeout))
                pause = self._ttl / 3
            except LeaseLost:
                self._validity.lose()
                self._has_ended.set()
            except QuorateError as error:
                pause = renew_pause(self._validity.remaining(), error)
