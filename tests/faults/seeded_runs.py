"""How often a seeded test of faults runs what it does, as core/base/seeded_runs_testing.h does in
C++: TUTTI_TEST_SCALE scales it in percent, and up to 100 nothing new begins after 25 seconds."""

import os
import time

ORDINARY_SCALE = 100
MOST_S = 25


class SeededRuns:
    """for number in SeededRuns("kills", 20): ... Prints in the end how many there were."""

    def __init__(self, what, ordinary, scale=None, now=time.monotonic):
        if scale is None:
            scale = int(os.environ.get("TUTTI_TEST_SCALE") or ORDINARY_SCALE)
        self.wanted = max(1, ordinary * scale // ORDINARY_SCALE)
        self.done = 0
        self._what = what
        self._is_bounded = scale <= ORDINARY_SCALE
        self._now = now
        self._begun = now()

    def is_over(self):
        """Whether no further one begins."""
        late = self._is_bounded and self._now() - self._begun >= MOST_S
        return self.done == self.wanted or (late and self.done > 0)

    def __iter__(self):
        while not self.is_over():
            self.done += 1
            yield self.done - 1
        self.tell()

    def tell(self):
        print(f"{self._what}: {self.done} of {self.wanted} in {self._now() - self._begun:.1f} s",
              flush=True)
