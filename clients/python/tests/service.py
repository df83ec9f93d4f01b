"""Real services for the tests.

``QUORATE_TEST_URLS`` contains the URLs of at least two instances that share their locks, separated by
commas. ``QUORATE_TEST_BINARY`` is the path of ``quorate``, for tests that stop or kill an instance.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
import uuid
from typing import Callable, Optional
from urllib.parse import quote
from urllib.request import urlopen

PATIENCE = 30.0


def urls() -> list[str]:
    found = required("QUORATE_TEST_URLS").split(",")
    if len(found) < 2:
        raise RuntimeError("QUORATE_TEST_URLS needs the URLs of two instances")
    return found


def required(variable: str) -> str:
    value = os.environ.get(variable)
    if not value:
        raise RuntimeError(f"{variable} is not set: see tests/service.py")
    return value


def fresh_name() -> str:
    """A lock that no other test uses. Its name needs encoding in a URL."""
    return f"python/{uuid.uuid4().hex} ü%?#"


def eventually(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {PATIENCE} s: {what}")
        time.sleep(0.01)


def waiting(url: str, name: str) -> int:
    """The number of waiters of a lock."""
    with urlopen(f"{url}/v1/locks/{quote(name, safe='')}") as response:
        return int(json.load(response)["waiting"])


class Instance:
    """A separate instance, with its own locks unless it shares those of another one."""

    def __init__(self, *args: str, shares: Optional[Instance] = None) -> None:
        self._owned = tempfile.TemporaryDirectory() if shares is None else None
        self.folder: str = self._owned.name if self._owned else shares.folder if shares else ""
        command = [required("QUORATE_TEST_BINARY"), "serve", "--listen", "127.0.0.1:0", *args]
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith("QUORATE")
        }
        environment["QUORATE_DIR"] = os.path.join(self.folder, "locks")
        self.process = subprocess.Popen(
            command, env=environment, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True
        )
        assert self.process.stderr is not None
        log = ""
        for output in self.process.stderr:
            log += output
            if "listening on " in output:
                break
        else:
            raise AssertionError(f"the service does not listen: {log}")
        self.url = output.rpartition(" ")[2].strip()

    def stop(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        self.kill()
        if self.process.stderr is not None:
            self.process.stderr.close()
        if self._owned is not None:
            self._owned.cleanup()

    def __enter__(self) -> Instance:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
