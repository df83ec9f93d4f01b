"""The arithmetic of deadlines."""

from __future__ import annotations

import unittest

from quorate._validity import Validity
from quorate._wire import DRIFT, Reply, now


def reply(sent_at: float, waited_ms: int, valid_for_ms: int) -> Reply:
    return Reply(sent_at, {"waited_ms": waited_ms, "valid_for_ms": valid_for_ms})


class ValidityTest(unittest.TestCase):
    def test_deadline_counts_from_before_the_request(self) -> None:
        self.assertEqual(reply(100.0, 2_000, 8_000).valid_until(), 100 + 10 * (1 - DRIFT))

    def test_expired_lease_is_never_revived(self) -> None:
        validity = Validity(reply(now() - 10, 0, 9_000))
        validity.extend(reply(now(), 0, 60_000))
        self.assertEqual(validity.remaining(), 0)
        self.assertTrue(validity.is_lost())

    def test_lost_or_released_lease_is_never_revived(self) -> None:
        for end in (Validity.lose, Validity.release):
            validity = Validity(reply(now(), 0, 60_000))
            self.assertGreater(validity.remaining(), 0)
            end(validity)
            validity.extend(reply(now(), 0, 60_000))
            self.assertEqual(validity.remaining(), 0)

    def test_released_lease_is_not_lost_and_lost_lease_stays_lost(self) -> None:
        released = Validity(reply(now(), 0, 60_000))
        released.release()
        released.lose()
        self.assertFalse(released.is_lost())
        lost = Validity(reply(now() - 10, 0, 9_000))
        lost.release()
        self.assertTrue(lost.is_lost())
