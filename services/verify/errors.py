"""What can stop a look at the stack. Each message ends with what to do next."""

from services.stack.errors import LakehouseError


class StackError(LakehouseError):
    """Base of this package's errors."""


class Unreachable(StackError):
    """An endpoint of the stack doesn't answer."""

    def __init__(self, service: str, endpoint: str, reason: object = "") -> None:
        detail = f" ({reason})" if str(reason) else ""
        super().__init__(
            f"{service} doesn't answer at {endpoint}{detail}. Start the stack with `make up`, or see `make status`."
        )
        self.service, self.endpoint = service, endpoint


class CannotVerify(StackError):
    """Source and lake can't be compared here, for a reason that isn't a difference between them."""


class NotCaughtUp(StackError):
    """The lake didn't reach the position in time. ``behind``: what is still missing, a line each."""

    def __init__(self, waited: float, behind: list[str]) -> None:
        super().__init__(f"not caught up after {waited:.0f} s: " + "; ".join(behind))
        self.waited, self.behind = waited, behind
