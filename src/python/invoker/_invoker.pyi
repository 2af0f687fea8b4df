"""The native half of the package; see src/python/native_client.h and bound_function.h."""

from typing import Any, List, Optional, Tuple, Union

from invoker.errors import InvokerError

__version__: str

class RemoteFunction:
    @property
    def name(self) -> str: ...

class NativeClient:
    def function(self, name: str) -> RemoteFunction: ...
    def function_names(self) -> List[str]: ...
    def start(
        self,
        token: int,
        function: RemoteFunction,
        data: Any,
        timeout: Optional[float],
        response_capacity: Optional[int],
        may_block: bool,
    ) -> bool: ...
    def next_results(self) -> List[Tuple[int, Union[memoryview, InvokerError]]]: ...
    def wake(self) -> None: ...
    def ping(self, size: int, timeout: Optional[float]) -> float: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    @property
    def forked(self) -> bool: ...
    @property
    def provider(self) -> str: ...
    @property
    def fabric_choice(self) -> str: ...
    @property
    def notification(self) -> str: ...
    @property
    def downgrade_reason(self) -> str: ...
    @property
    def max_payload(self) -> int: ...

class BoundFunction:
    def __new__(cls, native: NativeClient, handle: RemoteFunction) -> BoundFunction: ...
    @property
    def handle(self) -> RemoteFunction: ...
    def call(
        self,
        data: Any,
        timeout: Optional[float],
        response_capacity: Optional[int],
        out: Any,
        dtype: Any,
        /,
    ) -> Any: ...
    def __call__(
        self,
        data: Any = b"",
        *,
        timeout: Optional[float] = None,
        response_capacity: Optional[int] = None,
        out: Any = None,
        dtype: Any = None,
    ) -> Any: ...

def connect(
    server: str,
    provider: str,
    fabric_address: str,
    notify: str,
    window: int,
    connect_timeout: float,
    hot_timeout: float,
) -> NativeClient: ...
