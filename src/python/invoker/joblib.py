"""A backend of joblib over invoker.Executor.

    import invoker
    import invoker.joblib
    import joblib

    with invoker.Executor("10.0.0.7:7000") as executor, invoker.joblib.backend(executor):
        results = joblib.Parallel()(joblib.delayed(model)(rate) for rate in rates)

Needs joblib (Debian: python3-joblib).
"""

from __future__ import annotations

import contextlib
from concurrent.futures import Future
from typing import Any, Callable, Dict, Iterator, Optional

import joblib
from joblib.parallel import AutoBatchingMixin, ParallelBackendBase

from invoker.futures import Executor


class Backend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]
    """What joblib calls. One executor serves any number of joblib.Parallel, which leave it open."""

    supports_timeout = True
    default_n_jobs = -1

    def __init__(self, executor: Optional[Executor] = None, **options: Any) -> None:
        """executor: that runs the calls."""
        super().__init__(**options)
        if executor is None:
            raise TypeError("which executor? joblib.parallel_backend('invoker', executor=...)")
        self._executor = executor
        # The Parallel of each call that has not ended.
        self._parallels: Dict[Future, Any] = {}

    def effective_n_jobs(self, n_jobs: Optional[int]) -> int:
        """At most as many calls at a time as the executor has executors; joblib counts -1 as all."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        most = self._executor.max_workers
        if n_jobs is None or n_jobs < 0:
            return max(1, most + 1 + (-1 if n_jobs is None else n_jobs))
        return min(n_jobs, most)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Joblib begins with a Parallel."""
        self.parallel = parallel
        return self.effective_n_jobs(n_jobs)

    def submit(self, func: Callable[[], Any], callback: Optional[Callable[[Any], Any]] = None) -> Future:
        """Starts a batch of calls. callback: called with the batch's future or result, as this joblib wants it."""
        future = self._executor.submit(func)
        # Joblib waits by this.
        future.get = future.result  # type: ignore[attr-defined]
        self._parallels[future] = getattr(callback, "parallel", None)

        def end(ended: Future) -> None:
            self._parallels.pop(ended, None)
            # After a failure joblib would only take further inputs, and call none of them.
            if callback is not None and not ended.cancelled():
                callback(ended)

        future.add_done_callback(end)
        return future

    apply_async = submit

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancels the calls of the Parallel that has failed. Calls under way run on, and so do those of other Parallels."""
        for future, parallel in self._parallels.copy().items():
            if getattr(parallel, "_aborting", False):
                future.cancel()


@contextlib.contextmanager
def backend(executor: Executor) -> Iterator[None]:
    """Within it, joblib.Parallel() runs its calls on the executor."""
    with joblib.parallel_backend("invoker", executor=executor):
        yield


joblib.register_parallel_backend("invoker", Backend)
