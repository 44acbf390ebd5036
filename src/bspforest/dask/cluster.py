"""The shards of a forest on a Dask cluster: where they are, calling them, and replacing those that are lost."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future as Call
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
from distributed import Client, Future, wait
from distributed.protocol import to_serialize

from ..forest.block_sums import count_blocks
from ..trees.layout import TREES_PER_BLOCK
from .shard import TreeShard

# Seconds to wait for a worker to take a shard, and for any worker at all: a nanny restarts a worker in a few.
PLACING, WAITING = 20.0, 60.0

# Times that workers may be lost one after another while the same trees are built, before that is an error.
MAX_ATTEMPTS = 5

# Seconds after which a call that has not returned is first looked after, and between two looks in the end.
FIRST_LOOK, LAST_LOOK = 0.2, 2.0

# What the executor of a worker that is being closed says.
CLOSING = "cannot schedule new futures after shutdown"

NO_SCHEDULER = (
    "The Dask scheduler does not answer ({error!r}). No row is lost: this process holds them, and move_to(client) continues on another "
    "cluster."
)


class ShardLostError(Exception):
    """The worker that holds a shard does not answer, or does not hold it any longer."""


class TreesLostError(Exception):
    """A worker was lost, or failed: the trees must be built again."""


def divide(n_trees: int, n_workers: int) -> list[tuple[int, int]]:
    """Return the first and last tree of each shard, in whole blocks of trees that are summed one after another."""
    n_blocks = count_blocks(n_trees)
    n = max(1, min(n_workers, n_blocks))
    ends = [min(n_trees, TREES_PER_BLOCK * (n_blocks * k // n)) for k in range(n + 1)]
    return list(itertools.pairwise(ends))


class Shard:
    """A share of the trees, and where it is."""

    def __init__(self, first: int, last: int) -> None:
        self.first, self.last = first, last
        self.address: str | None = None  # None while it is nowhere
        self.future: Future | None = None  # keeps the actor alive
        self.room = 0  # slots of rows that it has

    @property
    def n_trees(self) -> int:
        return self.last - self.first


class Shards:
    """All shards of a forest.

    Parameters
    ----------
    client : Client
    n_trees : int

    Attributes
    ----------
    n_lost : int
        Shards that were lost and replaced.
    unused : list of int
        Numbers of kernel matrices that shards may drop.
    sent, received : int
        Bytes of arrays sent to workers and received from them.
    """

    def __init__(self, client: Client, n_trees: int) -> None:
        self.client = client
        self.n_lost = 0
        self.sent = self.received = 0
        self.unused: list[int] = []
        self._count = itertools.count()
        workers = self._wait_for_workers(set())
        self.parts = [Shard(*ends) for ends in divide(n_trees, len(workers))]
        for part in self.parts:
            self._place(part)

    def make_number(self) -> int:
        """Return a number that was not used before."""
        return next(self._count)

    # ------------------------------------------------------------------------------------------------------------------
    # Calling

    def start(self, part: Shard, method: str, *args: Any) -> Call:
        """Start a call of a method of a shard."""
        if self.client.status in ("closing", "closed"):
            raise RuntimeError(NO_SCHEDULER.format(error=f"the client is {self.client.status}"))
        self.sent += count_bytes(args)
        loop = cast(Any, self.client.loop).asyncio_loop
        return asyncio.run_coroutine_threadsafe(self._execute(part, method, args), loop)

    async def _execute(self, part: Shard, method: str, args: tuple) -> Any:
        # What `Actor` does, but straight to the worker: by default, it sends everything through the scheduler.
        if part.address is None or part.future is None:
            raise ShardLostError
        call = asyncio.ensure_future(
            self.client.rpc(part.address).actor_execute(
                function=method, actor=part.future.key, args=[to_serialize(arg) for arg in args], kwargs={}
            )
        )
        # Dask tries for 30 s to connect to a worker that is gone. The scheduler knows at once.
        patience = FIRST_LOOK
        while not (await asyncio.wait({call}, timeout=patience))[0]:
            patience = min(2 * patience, LAST_LOOK)
            try:
                workers = (await self._identify())["workers"]
            except RuntimeError:
                call.cancel()
                raise
            if part.address not in workers:
                call.cancel()
                raise ShardLostError
        try:
            reply = call.result()
        except (OSError, KeyError):  # it is gone, or was restarted under the same address
            raise ShardLostError from None
        if reply["status"] == "OK":
            return reply["result"]
        if CLOSING in str(reply["exception"]):
            raise ShardLostError
        raise reply["exception"]

    async def _identify(self) -> dict[str, Any]:
        """Return what the scheduler knows of its workers."""
        try:
            return await cast(Any, self.client.scheduler).identity(n_workers=-1)
        except OSError as error:
            raise RuntimeError(NO_SCHEDULER.format(error=error)) from error

    def finish(self, part: Shard, call: Call) -> Any:
        """Return the result of a call. If the shard is lost, note it, and raise `ShardLostError`."""
        try:
            result = call.result()
        except ShardLostError:
            part.address = part.future = None
            raise
        self.received += count_bytes(result)
        return result

    def call_each(self, calls: Iterable[tuple[Shard, str, tuple]]) -> list[Any]:
        """Run calls side by side; return their results. If a shard is lost, raise `TreesLostError` once all others are done.

        Another error is raised as it is; then some shards may have done what was asked, and others not.
        """
        started = [(part, self.start(part, method, *args)) for part, method, args in calls]
        results: list[Any] = []
        failure: BaseException | None = None
        for part, call in started:
            try:
                results.append(self.finish(part, call))
            except ShardLostError:
                failure = failure or TreesLostError()
            except Exception as error:
                failure = error
        if failure is not None:
            raise failure
        return results

    def pass_on(self, n: int, size: int, calls: Callable[[slice], tuple[str, tuple, Callable]]) -> list[Any]:
        """Let pieces of n rows go from shard to shard, each beginning with what the last one returned; return the results.

        ``calls(piece)`` returns a method, what it begins with, and what makes its arguments. While one shard works on a piece, others
        work on others.
        """

        def run(start: int) -> Any:
            method, state, arguments = calls(slice(start, min(n, start + size)))
            for part in self.parts:
                state = self.finish(part, self.start(part, method, *arguments(state)))
            return state

        starts = range(0, n, size)
        try:
            if len(starts) <= 1:
                return [run(start) for start in starts]
            with ThreadPoolExecutor(len(self.parts) + 1) as pool:
                return list(pool.map(run, starts))
        except ShardLostError:
            raise TreesLostError from None

    # ------------------------------------------------------------------------------------------------------------------
    # Placing

    def abandon(self) -> None:
        """Give up all shards, to be replaced by `replace_lost`."""
        for part in self.parts:
            part.address = part.future = None

    def replace_lost(self) -> None:
        """Place shards that are lost, and all others with them, evenly on the workers there are.

        If any was lost, all shards are made again, and are empty.
        """
        lost = [part for part in self.parts if part.address is None]
        if not lost:
            return
        self.n_lost += len(lost)
        self.unused.clear()
        self.abandon()
        for part in self.parts:
            self._place(part)

    def _place(self, part: Shard) -> None:
        """Make an actor for a shard, on the worker that has the fewest."""
        deadline = time.monotonic() + WAITING
        failed: set[str] = set()
        while True:
            workers = self._wait_for_workers(failed, deadline)
            held = [other.address for other in self.parts]
            address = min(workers, key=lambda address: (held.count(address), address))
            if self._make_actor(part, address, workers[address]):
                return
            failed.add(address)

    def _make_actor(self, part: Shard, address: str, n_threads: int) -> bool:
        """Make an actor for a shard on a worker; return whether that worked."""
        future = self.client.submit(
            TreeShard,
            n_threads,
            actor=True,
            workers=[address],
            allow_other_workers=False,
            pure=False,
            key=f"bspforest-shard-{np.random.SeedSequence().entropy:x}",
        )
        if not self._is_placed(future, address):
            future.cancel()
            return False
        part.address, part.future = address, future
        return True

    def _is_placed(self, future: Future, address: str) -> bool:
        """Wait until a worker has made an actor; return False if it does not, or is gone."""
        deadline, patience = time.monotonic() + PLACING, FIRST_LOOK
        while time.monotonic() < deadline:
            try:
                wait(future, timeout=patience)
                return future.status == "finished"
            except TimeoutError:
                patience = min(2 * patience, LAST_LOOK)
                if address not in self._find_workers():
                    return False
        return False

    def _find_workers(self) -> dict[str, Any]:
        """Return what the scheduler knows of its workers, by address."""
        try:
            return self.client.sync(self._identify)["workers"]
        except RuntimeError:
            raise
        except Exception as error:
            raise RuntimeError(NO_SCHEDULER.format(error=error)) from error

    def _wait_for_workers(self, failed: set[str], deadline: float | None = None) -> dict[str, int]:
        """Return the workers there are and their numbers of threads; wait for one that has not failed."""
        deadline = time.monotonic() + WAITING if deadline is None else deadline
        while True:
            found = self._find_workers().items()
            workers = {address: info["nthreads"] for address, info in found if address not in failed}
            if workers:
                return workers
            if time.monotonic() > deadline:
                raise RuntimeError(
                    f"No Dask worker took trees for {WAITING:.0f} s: either there is none, or they run out of memory. No row is lost: they "
                    "are held by this process, and trees are built afresh by the next call that finds a worker."
                )
            failed.clear()
            time.sleep(0.2)


def count_bytes(parts: Any) -> int:
    """Return the bytes of arrays among parts."""
    if isinstance(parts, np.ndarray):
        return parts.nbytes
    if isinstance(parts, dict):
        return sum(map(count_bytes, parts.values()))
    return sum(map(count_bytes, parts)) if isinstance(parts, tuple | list) else 0
