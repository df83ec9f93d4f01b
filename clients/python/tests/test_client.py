"""Acquiring, sharing, waiting and releasing."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import threading
import unittest

import quorate
from quorate import Client, Held

from .service import Instance, eventually, fresh_name, required, urls, waiting


class LockTest(unittest.TestCase):
    def setUp(self) -> None:
        self.client = Client(urls(), who="tests")
        self.name = fresh_name()

    def test_lock_is_held_inside_the_block_and_free_after_it(self) -> None:
        with self.client.lock(self.name, ttl=10) as lease:
            self.assertIsNone(self.client.try_lock(self.name))
            self.assertTrue(0 < lease.remaining() <= 10)
            self.assertFalse(lease.lost.is_set())
            lease.check()
        self.assertEqual(lease.remaining(), 0)
        self.assertFalse(lease.lost.is_set(), "a release is not a loss")
        with self.assertRaises(quorate.LeaseLost):
            lease.check()
        after = self.client.try_lock(self.name)
        assert after is not None
        self.assertGreater(after.fence, lease.fence)
        after.release()
        after.release()

    def test_lock_is_released_after_an_exception(self) -> None:
        with self.assertRaisesRegex(RuntimeError, "broken"):
            with self.client.lock(self.name):
                raise RuntimeError("broken")
        with self.client.lock(self.name, wait=0):
            pass

    def test_held_lock_reports_its_holder(self) -> None:
        with self.client.lock(self.name, why="import"):
            with self.assertRaises(Held) as caught:
                self.client.lock(self.name, wait=0)
            with self.assertRaises(Held):
                self.client.lock(self.name, wait=0.2)
        assert caught.exception.holder is not None
        self.assertEqual(caught.exception.holder.who, "tests (import)")
        self.assertEqual((caught.exception.code, caught.exception.status), ("held", 409))

    def test_waiter_gets_the_lock_when_it_is_released(self) -> None:
        first, got = self.client.lock(self.name), threading.Event()

        def wait() -> None:
            with self.client.lock(self.name, wait=30) as lease:
                self.assertGreater(lease.fence, first.fence)
                got.set()

        waiter = threading.Thread(target=wait)
        waiter.start()
        self.assertFalse(got.is_set())
        first.release()
        waiter.join(30)
        self.assertTrue(got.is_set())

    def test_wait_continues_after_the_service_cuts_it(self) -> None:
        with Instance("--max-wait", "50ms") as instance:
            client = Client(instance.url)
            first = client.lock(self.name)
            timer = threading.Timer(0.5, first.release)
            timer.start()
            with client.lock(self.name):
                self.assertEqual(first.remaining(), 0)
            timer.join()

    def test_readers_share_and_writers_exclude(self) -> None:
        with self.client.read(self.name) as one, self.client.read(self.name, wait=0):
            self.assertFalse(hasattr(one, "fence"))
            self.assertIsNone(self.client.try_lock(self.name, mode="write"))
        with self.client.write(self.name, wait=10) as writer:
            self.assertGreater(writer.fence, 0)
            self.assertIsNone(self.client.try_lock(self.name, mode="read"))

    def test_downgraded_writer_admits_readers_and_excludes_writers(self) -> None:
        with self.client.write(self.name, ttl=3) as lease:
            writer_id = lease.lease_id
            self.assertIsNone(self.client.try_lock(self.name, mode="read"))
            lease.downgrade()
            self.assertFalse(hasattr(lease, "fence"))
            self.assertNotEqual(lease.lease_id, writer_id)
            with self.client.read(self.name, wait=0):
                self.assertIsNone(self.client.try_lock(self.name, mode="write"))
            lease.downgrade()
            self.assertFalse(lease.lost.wait(4), "the read lease is renewed")
            lease.check()
        with self.client.write(self.name, wait=0):
            pass

    def test_downgrade_rejects_readers_and_ended_leases(self) -> None:
        with self.client.read(self.name) as reader:
            with self.assertRaises(quorate.InvalidRequest):
                reader.downgrade()
            reader.check()
        with self.assertRaises(quorate.LeaseLost):
            reader.downgrade()

    def test_unconfirmed_downgrade_is_repeated_by_the_renewal(self) -> None:
        with Instance() as instance:
            lease = Client(instance.url, timeout=0.2).write(self.name, ttl=6)
            instance.stop()
            with self.assertRaises(quorate.Unavailable):
                lease.downgrade()
            instance.resume()
            self.assertFalse(hasattr(lease, "fence"))
            readers = Client(instance.url)
            with readers.read(self.name, wait=5):
                lease.check()
            lease.release()
            with readers.write(self.name, wait=0):
                pass

    def test_leases_of_one_identity_hold_the_lock_together(self) -> None:
        outer = self.client.lock(self.name, identity="one")
        with self.client.lock(self.name, wait=0, identity="one") as inner:
            self.assertGreaterEqual(inner.fence, outer.fence)
            outer.release()
            self.assertIsNone(self.client.try_lock(self.name, identity="other"))
        with self.client.lock(self.name, wait=10):
            pass

    def test_permits_limit_the_number_of_holders(self) -> None:
        with self.client.permit(self.name, 2), self.client.permit(self.name, 2, wait=0):
            self.assertIsNone(self.client.try_lock(self.name, mode="permits", permits=2))
        with self.client.permit(self.name, 2, wait=10):
            pass

    def test_lease_outlives_its_ttl_by_renewals(self) -> None:
        with self.client.lock(self.name, ttl=3) as lease:
            seen = [lease.remaining()]

            def has_grown_twice() -> bool:
                seen.append(lease.remaining())
                lease.check()
                return sum(new > old + 0.05 for old, new in zip(seen, seen[1:])) >= 4

            eventually("the lease is renewed", has_grown_twice)


class FailoverTest(unittest.TestCase):
    def test_next_url_serves_what_the_first_one_does_not(self) -> None:
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            dead = f"http://127.0.0.1:{closed.getsockname()[1]}"
            client, name = Client([dead, *urls()]), fresh_name()
            with client.lock(name, wait=5):
                self.assertIsNone(client.try_lock(name))
            with self.assertRaisesRegex(quorate.Unavailable, dead):
                Client(dead).lock(name)

    def test_request_that_lost_its_response_gets_the_same_lease_elsewhere(self) -> None:
        with Instance() as first, Instance(shares=first) as second:
            relay = SilentRelay(first.url)
            client, name = Client([relay.url, second.url], timeout=1), fresh_name()
            with client.lock(name, ttl=20, wait=0) as lease:
                self.assertEqual(relay.requests, 1)
                self.assertIsNone(Client(first.url).try_lock(name))
                self.assertGreater(lease.fence, 0)
            with Client(first.url).lock(name, wait=0):
                pass

    def test_waiter_goes_elsewhere_when_its_instance_shuts_down(self) -> None:
        with Instance() as first, Instance(shares=first) as second:
            name, got = fresh_name(), threading.Event()
            held = Client(second.url).lock(name)

            def wait() -> None:
                with Client([first.url, second.url]).lock(name, wait=30):
                    got.set()

            waiter = threading.Thread(target=wait)
            waiter.start()
            eventually("it waits", lambda: waiting(second.url, name) == 1)
            first.process.terminate()
            first.process.wait(30)
            held.release()
            waiter.join(30)
            self.assertTrue(got.is_set())


class RejectionTest(unittest.TestCase):
    def test_tokens_are_required_and_limited_to_their_prefix(self) -> None:
        made = subprocess.run(
            [required("QUORATE_TEST_BINARY"), "token", "ci", "--prefix", "ci:"],
            capture_output=True, text=True, check=True,
        )
        token = re.findall(r"qt_\w+", made.stderr)[0]
        with Instance() as plain:
            path = os.path.join(plain.folder, "tokens.toml")
            with open(path, "w", encoding="utf-8") as file:
                file.write(made.stdout)
            with Instance("--tokens", path) as instance:
                with self.assertRaises(quorate.Unauthorized):
                    Client(instance.url).lock("ci:a")
                with self.assertRaises(quorate.Unauthorized) as caught:
                    Client(instance.url, "wrong").lock("ci:a")
                self.assertNotIn("wrong", str(caught.exception))
                with self.assertRaises(quorate.Forbidden):
                    Client(instance.url, token).lock("other")
                with Client(instance.url, token).lock("ci:a"):
                    pass

    def test_invalid_values_are_rejected_with_a_reason(self) -> None:
        client = Client(urls())
        with self.assertRaisesRegex(ValueError, "invalid ttl 0"):
            client.lock("a", ttl=0)
        with self.assertRaisesRegex(ValueError, "invalid wait -1"):
            client.lock("a", wait=-1)
        with self.assertRaisesRegex(ValueError, "must not be empty"):
            client.lock("")
        with self.assertRaises(quorate.InvalidRequest):
            client.lock("a", ttl=10**9)
        for url in ["localhost:8420", "ftp://a", "http://", "http://a:b"]:
            with self.assertRaisesRegex(ValueError, "invalid service URL"):
                Client(url)
        with self.assertRaises(ValueError) as caught:
            Client("http://user:secret@a")
        self.assertNotIn("secret", str(caught.exception))

    def test_certificate_of_the_service_is_verified(self) -> None:
        with Instance() as plain:
            paths = [os.path.join(plain.folder, name) for name in ("key.pem", "cert.pem")]
            command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=test"
            names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", paths[0], "-out", paths[1]]
            subprocess.run([*command.split(), *names], check=True, capture_output=True)
            with Instance("--tls-key", paths[0], "--tls-cert", paths[1]) as instance:
                self.assertTrue(instance.url.startswith("https://"))
                with self.assertRaisesRegex(quorate.Unavailable, "CERTIFICATE_VERIFY_FAILED"):
                    Client(instance.url).lock("a")
                context = ssl.create_default_context(cafile=paths[1])
                with Client(instance.url, ssl_context=context).lock("a"):
                    pass


class SilentRelay:
    """Forwards each request to a service, and keeps the response to itself."""

    def __init__(self, url: str) -> None:
        host, port = url.rsplit("/", 1)[1].split(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.requests = 0
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            client, _ = self._listener.accept()
            with socket.create_connection(self._target) as service:
                service.sendall(_whole_request(client))
                while service.recv(1 << 16):
                    pass
            self.requests += 1
            client.close()


def _whole_request(client: socket.socket) -> bytes:
    """The head and the body may arrive one after the other."""
    received = b""
    while True:
        head, end, body = received.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if end and len(body) >= int(length[1] if length else 0):
            return received
        chunk = client.recv(1 << 16)
        if not chunk:
            return received
        received += chunk
