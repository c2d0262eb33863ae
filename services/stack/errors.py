"""What every service's errors have in common: the message says what to do next, and a command prints it as it is."""

from collections.abc import Mapping


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
    """The lake hasn't reached the position.

    ``held``: the topics of tables that are held, and why. ``behind``: what is missing, a line each, where it hasn't
    come in time; none: the held tables are all that lacks.
    """

    def __init__(self, waited: float, behind: list[str], held: Mapping[str, str] | None = None) -> None:
        self.held = dict(held or {})
        told = [f"{topic} is held: {why}" for topic, why in sorted(self.held.items())]
        if behind:
            message = f"not caught up after {waited:.0f} s: " + "; ".join([*behind, *told])
        else:
            message = (
                f"all but what is held is in the lake after {waited:.0f} s: {'; '.join(told)}. See"
                " infra/runbooks/table-held.md; `lakehouse wait --except-held` does without"
            )
        super().__init__(message)
        self.waited, self.behind = waited, behind
