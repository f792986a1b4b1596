"""Open and waiting requests of each key and the levels of its buckets, the same for all server processes.

Each process writes counts of its own, so that those of a process that died can be taken back; readers add them up.
"""

import hashlib

from segue.processes.shared_numbers import SharedNumbers
from segue.processes.sharing import ALONE, Sharing

MAX_KEYS = 4096  # keys beyond these share the last account
_PACE, _LAST_START, _NEXT_RETRY, _HEADER = range(4)
_ID, _BUCKETS, _COUNTS = 0, 1, 5  # in a row: two numbers for each of two buckets
_PER_PROCESS = 2  # requests that are open, and requests that wait


class Account:
    """One key's row."""

    def __init__(self, ledger: "Ledger", start: int) -> None:
        self._ledger = ledger
        self._values = ledger.values
        self._counts = start + _COUNTS
        self._own = self._counts + _PER_PROCESS * ledger.process
        self._end = start + ledger.row_size
        self.buckets = start + _BUCKETS

    @property
    def num_open(self) -> int:
        return int(sum(self._values[self._counts : self._end : _PER_PROCESS]))

    @property
    def num_waiting(self) -> int:
        return int(sum(self._values[self._counts + 1 : self._end : _PER_PROCESS]))

    def add_open(self, more: int) -> None:
        self._values[self._own] += more

    def add_waiting(self, more: int) -> None:
        self._values[self._own + 1] += more
        self._ledger.add_waiting(more)


class Ledger:
    def __init__(self, sharing: Sharing = ALONE, max_keys: int = MAX_KEYS) -> None:
        self.process = sharing.process
        self.row_size = _COUNTS + _PER_PROCESS * sharing.num_processes
        self._waiting = range(_HEADER, _HEADER + sharing.num_processes)
        self._rows = range(
            self._waiting.stop, self._waiting.stop + max_keys * self.row_size, self.row_size
        )
        numbers = SharedNumbers(self._rows.stop, sharing.path("limits"))
        self.lock, self.values = numbers.lock, numbers.values
        self._accounts: dict[str, Account] = {}

    def account(self, key: str) -> tuple[Account, bool]:
        """The account of a key, and whether it is new to all processes. To be called with the lock."""
        known = self._accounts.get(key)
        if known is not None:
            return known, False
        start, is_new = self._claim(_number(key))
        account = self._accounts[key] = Account(self, start)
        return account, is_new

    def _claim(self, number: float) -> tuple[int, bool]:
        for start in self._rows:
            found = self.values[start + _ID]
            if found == number:
                return start, False
            if not found:
                self.values[start + _ID] = number
                return start, True
        return self._rows[-1], False

    @property
    def num_waiting(self) -> int:
        return int(sum(self.values[self._waiting.start : self._waiting.stop]))

    def add_waiting(self, more: int) -> None:
        self.values[self._waiting.start + self.process] += more

    def forget(self, process: int) -> None:
        """Take back the counts of a process that has ended."""
        with self.lock:
            self.values[self._waiting.start + process] = 0.0
            for start in self._rows:
                if not self.values[start + _ID]:
                    return
                own = start + _COUNTS + _PER_PROCESS * process
                self.values[own] = self.values[own + 1] = 0.0

    # --- how fast the queue moves ------------------------------------------------------------------

    @property
    def pace_s(self) -> float:
        return self.values[_PACE]

    @pace_s.setter
    def pace_s(self, seconds: float) -> None:
        self.values[_PACE] = seconds

    @property
    def last_start(self) -> float:
        return self.values[_LAST_START]

    @last_start.setter
    def last_start(self, moment: float) -> None:
        self.values[_LAST_START] = moment

    @property
    def next_retry(self) -> float:
        return self.values[_NEXT_RETRY]

    @next_retry.setter
    def next_retry(self, moment: float) -> None:
        self.values[_NEXT_RETRY] = moment


def _number(key: str) -> float:
    """A key's name as a number that a float holds exactly; never 0."""
    digest = hashlib.sha256(key.encode(errors="surrogatepass")).digest()
    return float((int.from_bytes(digest[:8], "little") >> 12) + 1)
