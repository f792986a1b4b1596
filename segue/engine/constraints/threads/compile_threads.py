"""The threads that compile constraints, at low priority: each constraint once at a time, first come first served."""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from segue.engine.constraints.compiler import Compiler, Grammar
from segue.engine.constraints.threads.pool import GIVE_UP_S, Pool, Watchdog, Work
from segue.engine.constraints.threads.priority import step_back
from segue.errors import EngineFault, InvalidField
from segue.types import Constraint

log = logging.getLogger("segue.constraint")

NUM_COMPILERS = 2
# What takes less may be Python, of which several threads together would slow down the one that runs the model.
OVERDUE_S = 2.0

Outcome = Grammar | Exception


@dataclass(eq=False)
class CompileJob:
    constraint: Constraint
    # May be called twice: that it takes too long, and what came of it.
    tell: Callable[[Outcome], None]
    is_wanted: Callable[[], bool]  # False: the request was cancelled


class Compilations:
    """Which constraint is compiled next."""

    def __init__(self) -> None:
        self._waiting: list[CompileJob] = []
        self._begun: set[Constraint] = set()
        self._given_up: set[Constraint] = set()  # of those

    def put(self, wanted: CompileJob) -> bool:
        """False if it is being compiled, and was given up."""
        if wanted.constraint in self._given_up:
            return False
        self._waiting.append(wanted)
        return True

    @property
    def has_next(self) -> bool:
        return self._next() is not None

    def _next(self) -> CompileJob | None:
        self._waiting = [wanted for wanted in self._waiting if wanted.is_wanted()]
        return next((each for each in self._waiting if each.constraint not in self._begun), None)

    def take(self) -> CompileJob | None:
        wanted = self._next()
        if wanted is not None:
            self._waiting.remove(wanted)
            self._begun.add(wanted.constraint)
        return wanted

    def end(self, constraint: Constraint) -> list[CompileJob]:
        """It is compiled. Returns who else waits for it."""
        self._begun.discard(constraint)
        self._given_up.discard(constraint)
        return self._drop(constraint)

    def give_up(self, constraint: Constraint) -> list[CompileJob]:
        """It takes too long. Returns who else waits for it; from now on nobody does."""
        self._given_up.add(constraint)
        return self._drop(constraint)

    def _drop(self, constraint: Constraint) -> list[CompileJob]:
        dropped = [each for each in self._waiting if each.constraint == constraint]
        self._waiting = [each for each in self._waiting if each.constraint != constraint]
        return dropped


class CompileThreads:
    def __init__(self, compiler: Compiler) -> None:
        self._compiler = compiler
        self._lock = threading.Lock()
        self._compilations = Compilations()
        work = Work(
            take=self._compilations.take, run=self._run, prepare=step_back, overdue_s=OVERDUE_S
        )
        self._pool = Pool("compiler", NUM_COMPILERS, self._lock, work)
        self._watchdog = Watchdog(self._lock, self._look)

    def submit(self, wanted: CompileJob) -> None:
        with self._lock:
            is_put = self._compilations.put(wanted)
            if is_put:
                self._watchdog.wake()
                self._pool.call()
        if not is_put:
            _tell_late([wanted])

    def _run(self, wanted: CompileJob) -> None:
        try:
            outcome: Outcome = self._compiler.compile(wanted.constraint)
        except Exception as error:
            outcome = error
        except BaseException:  # a panic of llguidance
            log.exception("a constraint could not be compiled")
            outcome = EngineFault("the engine failed on the constraint of this request")
        with self._lock:
            same = self._compilations.end(wanted.constraint)
        for each in (wanted, *same):
            each.tell(outcome)

    def _look(self) -> bool:
        late: list[CompileJob] = []
        with self._lock:
            for wanted in self._pool.look():
                late += [wanted, *self._compilations.give_up(wanted.constraint)]
            if self._compilations.has_next:
                self._pool.call()
            is_resting = self._pool.is_resting
        _tell_late(late)
        return not is_resting


def _tell_late(late: list[CompileJob]) -> None:
    for wanted in late:
        constraint = wanted.constraint
        said = f"{constraint.param}{constraint.within}: it takes longer than {GIVE_UP_S:.0f} s to compile"
        wanted.tell(InvalidField(said, constraint.param))
