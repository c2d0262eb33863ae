"""Who has signed in, and what they may do: three accounts, a signed cookie, a token in every form."""

import hmac
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Form, HTTPException, Request
from limits import parse
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter
from pydantic import SecretStr

ROLES = ("viewer", "operator", "admin")
# Whose keys of the object store a person's queries have.
READS_AS = {"viewer": "restricted", "operator": "analyst", "admin": "analyst"}
SIGN_INS, ACTIONS, QUERIES = parse("10/minute"), parse("60/minute"), parse("30/minute")


class NotSignedIn(Exception):
    """Nobody has signed in; ``next``: where they wanted to go."""

    def __init__(self, wanted: str) -> None:
        super().__init__(wanted)
        self.next = wanted


@dataclass(frozen=True)
class Person:
    """Somebody who has signed in. ``csrf``: what their forms have to bring."""

    role: str
    csrf: str

    def may(self, least: str) -> bool:
        """Return whether they have this role, or more."""
        return ROLES.index(self.role) >= ROLES.index(least)

    @property
    def reads_as(self) -> str:
        """Return the role of the lake that they read as."""
        return READS_AS[self.role]

    @property
    def name(self) -> str:
        """Return what the audit trail calls them."""
        return f"{self.role}@console"


class Accounts:
    """The accounts, and how often anything may be tried."""

    def __init__(self, passwords: Mapping[str, SecretStr]) -> None:
        self._passwords = passwords
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def sign_in(self, request: Request, name: str, password: str) -> bool:
        """Note who it is, and return True, where the password is theirs. Raises HTTPException after too many tries."""
        self.check_rate(SIGN_INS, request.client.host if request.client else "?")
        known = self._passwords.get(name, SecretStr(secrets.token_hex(16))).get_secret_value()
        if not hmac.compare_digest(known.encode(), password.encode()) or name not in self._passwords:
            return False
        request.session.clear()
        request.session.update(role=name, csrf=secrets.token_urlsafe(24))
        return True

    def check_rate(self, limit: object, who: str) -> None:
        """Raise HTTPException where somebody does something too often."""
        if not self._limiter.hit(limit, who):  # type: ignore[arg-type]
            raise HTTPException(429, f"too often: {limit} at most. Wait a moment.")


def person(request: Request) -> Person:
    """Return who has signed in. Raises NotSignedIn."""
    role, csrf = request.session.get("role"), request.session.get("csrf")
    if role not in ROLES or not isinstance(csrf, str):
        raise NotSignedIn(quote(request.url.path if request.method == "GET" else "/"))
    return Person(role, csrf)


def at_least(role: str) -> Callable[[Person], Person]:
    """Return what asks for a role, or more, of who has signed in."""

    def check(who: Annotated[Person, Depends(person)]) -> Person:
        if not who.may(role):
            raise HTTPException(403, f"this takes the role {role}; you are {who.role}")
        return who

    return check


def checked(
    who: Annotated[Person, Depends(person)],
    csrf: Annotated[str, Form()] = "",
) -> Person:
    """Return who sent a form that was made for them. Raises HTTPException."""
    if not hmac.compare_digest(who.csrf.encode(), csrf.encode()):
        raise HTTPException(403, "this form wasn't made for this session: load the page again")
    return who


Viewer = Annotated[Person, Depends(at_least("viewer"))]
Operator = Annotated[Person, Depends(at_least("operator"))]
Admin = Annotated[Person, Depends(at_least("admin"))]
Checked = Annotated[Person, Depends(checked)]
