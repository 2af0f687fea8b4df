"""Loads the native half, and leaves the process's signal handling as it was.

Libraries that libfabric brings along install signal handlers when they are loaded, which print a backtrace and exit. With them Ctrl-C would
no longer raise KeyboardInterrupt, and a crash would not look like one.
"""

import ctypes
import signal

_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGSEGV,
    signal.SIGBUS,
    signal.SIGILL,
    signal.SIGABRT,
)

_sigaction = ctypes.CDLL(None).sigaction
# Larger than any struct sigaction, and opaque. The signal module could only restore handlers of Python's.
_noted = {number: ctypes.create_string_buffer(512) for number in _SIGNALS}

for _number, _action in _noted.items():
    _sigaction(int(_number), None, _action)
try:
    from invoker._native._invoker import __version__
finally:
    for _number, _action in _noted.items():
        _sigaction(int(_number), _action, None)

__all__ = ["__version__"]
