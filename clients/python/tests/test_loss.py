"""A lease is never reported as valid after its deadline."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import unittest
from typing import Callable
from urllib.request import Request, urlopen

import quorate
from quorate import Client, Lease

from .service import PATIENCE, Instance, eventually, fresh_name, waiting

TTL = 2.0


def another_owner_gets_it(instance: Instance, name: str) -> Lease:
    return Client(instance.url).lock(name, wait=PATIENCE)


class LossTest(unittest.TestCase):
    def setUp(self) -> None:
        self.instance = Instance()
        self.addCleanup(self.instance.close)
        self.name = fresh_name()
        self.losses: list[Lease] = []

    def lock(self) -> Lease:
        client = Client(self.instance.url, timeout=0.5)
        return client.lock(self.name, ttl=TTL, on_lost=self.losses.append)

    def assert_lost_in_time(self, break_service: Callable[[], None]) -> Lease:
        lease = self.lock()
        break_service()
        self.assertTrue(lease.lost.wait(PATIENCE))
        self.assertEqual(lease.remaining(), 0)
        with self.assertRaises(quorate.LeaseLost):
            lease.check()
        eventually("the callback runs", lambda: self.losses == [lease])
        return lease

    def test_lease_is_lost_when_the_service_is_killed(self) -> None:
        self.assert_lost_in_time(self.instance.kill)

    def test_lease_is_lost_when_the_service_is_stopped_and_stays_lost_afterwards(self) -> None:
        lease = self.assert_lost_in_time(self.instance.stop)
        self.instance.resume()
        with another_owner_gets_it(self.instance, self.name) as other:
            self.assertGreater(other.fence, lease.fence)
            self.assertEqual(lease.remaining(), 0)
            with self.assertRaises(quorate.LeaseLost):
                lease.release()
            other.check()
            self.assertIsNone(Client(self.instance.url).try_lock(self.name))

    def test_block_that_lost_its_lease_raises(self) -> None:
        with self.assertRaises(quorate.LeaseLost):
            with self.lock() as lease:
                self.instance.kill()
                lease.lost.wait(PATIENCE)
        with self.assertRaisesRegex(KeyError, "mine"):
            with self.lease_of_another_instance() as lease:
                lease.lost.wait(PATIENCE)
                raise KeyError("mine")

    def lease_of_another_instance(self) -> Lease:
        instance = Instance()
        lease = Client(instance.url).lock(self.name, ttl=TTL)
        instance.close()
        return lease

    def test_lease_that_ended_at_the_service_is_lost_at_the_next_renewal(self) -> None:
        # Without the renewal, the loss would come after the patience has ended.
        ttl = PATIENCE * 4 / 3
        lease = Client(self.instance.url).lock(self.name, ttl=ttl, on_lost=self.losses.append)
        # Another process that knows the lease id releases it.
        url = f"{self.instance.url}/v1/leases/{lease.lease_id}"
        urlopen(Request(url, method="DELETE")).close()
        self.assertTrue(lease.lost.wait(PATIENCE), "the next renewal notices it")
        eventually("the callback runs", lambda: self.losses == [lease])

    def test_response_that_arrives_too_late_gives_no_lease(self) -> None:
        holder = Client(self.instance.url).lock(self.name, ttl=20)
        # The waiter is another process: it is stopped while the response is on its way.
        waiter = Process(self.instance.url, self.name, wait=20)
        eventually("it waits", lambda: waiting(self.instance.url, self.name) == 1)
        waiter.process.send_signal(signal.SIGSTOP)
        holder.release()
        # The lock that the stopped process was granted expires.
        another_owner_gets_it(self.instance, self.name).release()
        waiter.process.send_signal(signal.SIGCONT)
        self.assertEqual(waiter.result(), ["lost"])

    def test_process_that_was_paused_notices_the_loss_at_its_first_step(self) -> None:
        paused = Process(self.instance.url, self.name, wait=0)
        self.assertEqual(paused.line(), "held")
        paused.process.send_signal(signal.SIGSTOP)
        with another_owner_gets_it(self.instance, self.name):
            paused.process.send_signal(signal.SIGCONT)
            self.assertEqual(paused.result(), ["valid False", "is_set True", "lost"])

    def test_renewals_go_to_another_instance(self) -> None:
        with Instance(shares=self.instance) as second:
            client = Client([self.instance.url, second.url], timeout=0.5)
            stopped = client.lock(self.name, ttl=6)
            self.instance.stop()
            until = time.monotonic() + 6
            eventually("the ttl passes", lambda: time.monotonic() > until)
            stopped.check()
            stopped.release()
            Client(second.url).lock(self.name, wait=0).release()
            self.instance.resume()


class Process:
    """Another process, which acquires the lock and reports the state of its lease."""

    CODE = """
import sys, threading, quorate
url, name, wait = sys.argv[1], sys.argv[2], float(sys.argv[3])
try:
    lease = quorate.Client(url, timeout=30).lock(name, ttl=2, wait=wait)
    # No other thread may help: what the main thread sees first must be right.
    sys.setswitchinterval(1000)
    print("held", flush=True)
    while lease.remaining() > 0: pass
    print("valid", lease.remaining() > 0)
    print("is_set", lease.lost.is_set())
    lease.check()
except quorate.LeaseLost:
    print("lost")
"""

    def __init__(self, url: str, name: str, wait: float) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", self.CODE, url, name, str(wait)],
            stdout=subprocess.PIPE, text=True, env=dict(os.environ),
        )

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def result(self) -> list[str]:
        text, _ = self.process.communicate(timeout=PATIENCE)
        return text.splitlines()
