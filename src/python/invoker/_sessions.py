"""Sessions of a Group."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from invoker.client import Client


class Session:
    """One session with one of the group's servers, and what is known of it. Under the group's lock.

    Another one may follow it while calls of it are still under way: a callback may be waiting for just that. They stay
    calls of this one.
    """

    def __init__(self, index: int, client: Client) -> None:
        self.index = index
        self.client = client
        # The group's calls.
        self.under_way = 0
        # Its worker has gone, or takes no more calls.
        self.gone = False
        self.followed = False
