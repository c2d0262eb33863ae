"""Derive keys from one secret, a key for each purpose, and use them in Python.

:mod:`pipelines.protection.functions` does the same in Spark. A key is never part of a statement, a plan or a message.
"""

import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from pydantic import SecretStr

from quality.contract import Contract
from quality.errors import ContractError

# RFC 5869: the info tells the keys apart. Another version of what is done with them has other keys.
INFO = "lakehouse protection 1: "
BITS, BLOCK = 256, 64
IV_BYTES, TAG_BYTES = 12, 16
# What a token is bound to: the same in every table, so that equal values have equal tokens.
SHARED = "token"
SHORTEST = 32


class Unreadable(ValueError):
    """An encrypted value can't be read: it has another key or another place, or was altered."""


@dataclass(frozen=True, repr=False)
class Hmac:
    """A key of HMAC (RFC 2104), as the two blocks that begin what is hashed."""

    inner: bytes
    outer: bytes

    @classmethod
    def of(cls, key: bytes) -> "Hmac":
        """Return the blocks of a key no longer than a block."""
        block = key.ljust(BLOCK, b"\0")
        return cls(bytes(byte ^ 0x36 for byte in block), bytes(byte ^ 0x5C for byte in block))


@dataclass(frozen=True, repr=False)
class ProtectionKeys:
    """The keys of one secret. ``fingerprint`` names it and tells nothing of it."""

    hash: bytes
    synthetic: bytes
    token: bytes
    value: bytes
    letter: bytes
    fingerprint: str = field(default="")

    @classmethod
    def of(cls, secret: SecretStr | None) -> "ProtectionKeys | None":
        """Return the keys of ``secret``; None: there is none. Raises ValueError for one that is too short."""
        given = "" if secret is None else secret.get_secret_value()
        if not given:
            return None
        if len(given) < SHORTEST:
            raise ValueError(f"PROTECTION_KEY has {len(given)} characters, of at least {SHORTEST}")
        named = {purpose: _derived(given, purpose) for purpose in ("hash", "synthetic", "token", "value", "letter")}
        return cls(**named, fingerprint=_derived(given, "fingerprint")[:4].hex())

    def hashed(self, text: str) -> str:
        """Return HMAC-SHA-256 in hexadecimal."""
        return hmac.digest(self.hash, text.encode(), "sha256").hex()

    def tokenised(self, text: str) -> str:
        """Encrypt by AES-GCM with an initialisation vector that is made of the text (HMAC, its first 96 bits)."""
        data = text.encode()
        return _text(_sealed(self.token, data, SHARED, hmac.digest(self.synthetic, data, "sha256")[:IV_BYTES]))

    def detokenised(self, token: str) -> str:
        """Return the text of a token. Raises Unreadable."""
        return _opened(self.token, _bytes(token), SHARED).decode()

    def encrypted(self, text: str, place: str) -> str:
        """Encrypt by AES-GCM, bound to ``place`` (:func:`place_of`)."""
        return _text(_sealed(self.value, text.encode(), place, secrets.token_bytes(IV_BYTES)))

    def decrypted(self, text: str, place: str) -> str:
        """Return the text of what was encrypted. Raises Unreadable."""
        return _opened(self.value, _bytes(text), place).decode()

    def sealed(self, data: bytes, place: str) -> bytes:
        """Encrypt a part of a dead letter, bound to the letter's ``place``."""
        return _sealed(self.letter, data, place, secrets.token_bytes(IV_BYTES))

    def opened(self, data: bytes, place: str) -> bytes:
        """Return the part of a dead letter that was sealed. Raises Unreadable."""
        return _opened(self.letter, data, place)


def place_of(table: tuple[str, str], column: str) -> str:
    """Return what an encrypted value is bound to."""
    return ".".join((*table, column))


def letter_place(topic: str, partition: int, offset: int) -> str:
    """Return what a sealed letter is bound to."""
    return f"{topic}:{partition}:{offset}"


def _derived(secret: str, purpose: str) -> bytes:
    return HKDF(SHA256(), hashlib.sha256().digest_size, salt=None, info=f"{INFO}{purpose}".encode()).derive(
        secret.encode()
    )


def _sealed(key: bytes, data: bytes, place: str, vector: bytes) -> bytes:
    return vector + AESGCM(key).encrypt(vector, data, place.encode())


def _opened(key: bytes, data: bytes, place: str) -> bytes:
    if len(data) < IV_BYTES + TAG_BYTES:
        raise Unreadable("too short to have been encrypted")
    try:
        return AESGCM(key).decrypt(data[:IV_BYTES], data[IV_BYTES:], place.encode())
    except InvalidTag:
        raise Unreadable("not encrypted with this key, for this place") from None


def _text(data: bytes) -> str:
    return b64encode(data).decode()


def _bytes(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except ValueError:
        raise Unreadable("not what encrypting gives") from None


def keys_for(contracts: Iterable[Contract], secret: SecretStr | None) -> ProtectionKeys | None:
    """The keys by which what these contracts protect is. Raises ContractError where there is no secret for that."""
    try:
        keys = ProtectionKeys.of(secret)
    except ValueError as error:
        raise ContractError(f"{error}") from None
    needing = [contract for contract in contracts if contract.protected]
    if needing and keys is None:
        raise ContractError(without_key(needing))
    return keys


def without_key(contracts: Iterable[Contract]) -> str:
    """Return what is wrong with contracts that protect columns where there is no secret."""
    named = ", ".join(c.source_name for c in contracts if c.protected)
    return (
        f"contract of {named}: it protects columns, and there is no PROTECTION_KEY. `make env` writes one into .env;"
        " then start again."
    )
