"""What every service's errors have in common: the message says what to do next, and a command prints it as it is."""


class LakehouseError(Exception):
    """Base of the errors that a command prints without a traceback."""


class NotConfigured(LakehouseError):
    """A setting is missing or not valid."""


class StackError(LakehouseError):
    """Base of what can stop a look at the stack."""


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
