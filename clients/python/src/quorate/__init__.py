"""Client of the Quorate HTTP service: distributed locks with leases and fences."""

from ._lease import Lease
from .aio import AsyncClient, AsyncLease
from .client import Client
from .errors import (
    Forbidden,
    Held,
    Holder,
    IdempotencyConflict,
    InvalidRequest,
    LeaseLost,
    NoQuorum,
    QuorateError,
    ServiceError,
    ShuttingDown,
    TooMany,
    Unauthorized,
    Unavailable,
)

__all__ = [
    "AsyncClient",
    "AsyncLease",
    "Client",
    "Forbidden",
    "Held",
    "Holder",
    "IdempotencyConflict",
    "InvalidRequest",
    "Lease",
    "LeaseLost",
    "NoQuorum",
    "QuorateError",
    "ServiceError",
    "ShuttingDown",
    "TooMany",
    "Unauthorized",
    "Unavailable",
]
