"""The native half of the package; see src/python/native_client.h, bound_function.h, native_lease.h and native_server.h."""

from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple, Union

from invoker.errors import InvokerError

__version__: str

class RemoteFunction:
    @property
    def name(self) -> str: ...

class CallTicket: ...

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
    ) -> Optional[CallTicket]: ...
    def call_frame(
        self,
        function: RemoteFunction,
        parts: Sequence[Any],
        timeout: Optional[float],
        response_capacity: Optional[int],
    ) -> memoryview: ...
    def start_frame(
        self,
        token: int,
        function: RemoteFunction,
        parts: Sequence[Any],
        timeout: Optional[float],
        response_capacity: Optional[int],
        may_block: bool,
    ) -> Optional[CallTicket]: ...
    def cancel(self, ticket: CallTicket) -> bool: ...
    @property
    def frames_in_place(self) -> int: ...
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
    def data_auth(self) -> str: ...
    def dropped_responses(self) -> Dict[str, int]: ...
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
    data_auth: str,
    window: int,
    connect_timeout: float,
    hot_timeout: float,
    credentials: Tuple[str, str, str, str, str, bool],
    peer_timeout: float,
) -> NativeClient: ...

class NativeLease:
    def executors(self) -> List[NativeClient]: ...
    def function_names(self) -> List[str]: ...
    def load(self, code: bytes, python: bool, name: str) -> List[str]: ...
    def ended(self) -> Optional[InvokerError]: ...
    def terms(self) -> Dict[str, Any]: ...
    def release(self) -> Dict[str, Any]: ...
    @property
    def closed(self) -> bool: ...
    @property
    def forked(self) -> bool: ...

def lease(
    server: str,
    provider: str,
    fabric_address: str,
    notify: str,
    data_auth: str,
    window: int,
    connect_timeout: float,
    hot_timeout: float,
    credentials: Tuple[str, str, str, str, str, bool],
    peer_timeout: float,
    terms: Dict[str, Any],
) -> NativeLease: ...
def capacity(server: str, timeout: float, credentials: Tuple[str, str, str, str, str, bool]) -> Dict[str, Any]: ...
def cancelled() -> bool: ...
def run_executor(arguments: Sequence[str]) -> int: ...

class NativeServer:
    def close(self, drain_timeout: float) -> None: ...
    def calls_run(self) -> int: ...
    @property
    def closed(self) -> bool: ...
    @property
    def forked(self) -> bool: ...
    @property
    def address(self) -> str: ...
    @property
    def providers(self) -> List[str]: ...

def serve(
    functions: Sequence[Tuple[str, Callable[..., Any], bool, str]],
    listen: str,
    provider: str,
    fabric_address: str,
    notify: str,
    data_auth: str,
    window: int,
    executors: int,
    hot_timeout: float,
    peer_timeout: float,
    security: Tuple[str, str, str, str, str, bool],
) -> NativeServer: ...
