"""The client for asyncio."""

from __future__ import annotations

import asyncio
import unittest

import quorate
from quorate import AsyncClient, AsyncLease

from .service import PATIENCE, Instance, fresh_name, urls


class AsyncTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self) -> None:
        self.name = fresh_name()

    async def test_lock_is_held_inside_the_block_and_free_after_it(self) -> None:
        client = AsyncClient(["http://127.0.0.1:1", *urls()], who="tests")
        async with client.lock(self.name, ttl=10, wait=0) as lease:
            self.assertIsNone(await client.try_lock(self.name))
            self.assertTrue(0 < lease.remaining() <= 10)
            lease.check()
            with self.assertRaises(quorate.Held) as caught:
                await client.lock(self.name, wait=0.2)
            assert caught.exception.holder is not None
            self.assertEqual(caught.exception.holder.who, "tests")
        self.assertFalse(lease.lost.is_set(), "a release is not a loss")
        after = await client.lock(self.name, wait=0)
        self.assertGreater(after.fence, lease.fence)
        await after.release()

    async def test_many_waiters_get_the_lock_one_after_the_other(self) -> None:
        client, holders, fences = AsyncClient(urls()), 0, []

        async def work() -> None:
            nonlocal holders
            async with client.lock(self.name, ttl=20, wait=PATIENCE) as lease:
                holders += 1
                self.assertEqual(holders, 1)
                await asyncio.sleep(0)
                fences.append(lease.fence)
                holders -= 1

        await asyncio.gather(*(work() for _ in range(100)))
        self.assertEqual(fences, sorted(set(fences)))
        self.assertEqual(len(fences), 100)

    async def test_cancelled_waiter_leaves_the_queue(self) -> None:
        client = AsyncClient(urls())
        held = await client.lock(self.name)
        waiter = asyncio.ensure_future(client.lock(self.name, ttl=30)._acquire())
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(waiter, 0.3)
        await held.release()
        async with client.lock(self.name, wait=10):
            pass

    async def test_lease_is_lost_when_the_service_is_stopped_and_stays_lost(self) -> None:
        losses: list[AsyncLease] = []
        with Instance() as instance:
            client = AsyncClient(instance.url, timeout=0.5)
            lease = await client.lock(self.name, ttl=2, on_lost=losses.append)
            instance.stop()
            await asyncio.wait_for(lease.lost.wait(), PATIENCE)
            self.assertEqual((lease.remaining(), losses), (0, [lease]))
            instance.resume()
            async with AsyncClient(instance.url).lock(self.name, wait=PATIENCE) as other:
                self.assertGreater(other.fence, lease.fence)
                with self.assertRaises(quorate.LeaseLost):
                    lease.check()
                with self.assertRaises(quorate.LeaseLost):
                    await lease.release()
                other.check()

    async def test_downgraded_writer_admits_readers_and_excludes_writers(self) -> None:
        client = AsyncClient(urls())
        async with client.lock(self.name, ttl=3, mode="write") as lease:
            await lease.downgrade()
            self.assertFalse(hasattr(lease, "fence"))
            async with client.lock(self.name, wait=0, mode="read"):
                self.assertIsNone(await client.try_lock(self.name, mode="write"))
                with self.assertRaises(asyncio.TimeoutError):
                    await asyncio.wait_for(lease.lost.wait(), 4)
            lease.check()
        async with client.lock(self.name, wait=0) as lease:
            await lease.release()
            with self.assertRaises(quorate.LeaseLost):
                await lease.downgrade()

    async def test_blocked_event_loop_does_not_hide_the_loss(self) -> None:
        import time

        with Instance() as instance:
            lease = await AsyncClient(instance.url).lock(self.name, ttl=2)
            until = time.monotonic() + 2.1
            while time.monotonic() < until:
                pass
            self.assertEqual(lease.remaining(), 0)
            self.assertTrue(lease.lost.is_set())
            with self.assertRaises(quorate.LeaseLost):
                lease.check()

    async def test_lease_outlives_its_ttl_by_renewals(self) -> None:
        async with AsyncClient(urls()).lock(self.name, ttl=3) as lease:
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(lease.lost.wait(), 5)
            lease.check()
