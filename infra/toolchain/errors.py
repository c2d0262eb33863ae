"""What can go wrong while installing; each error says what to do next."""

from __future__ import annotations

from pathlib import Path


class ToolchainError(Exception):
    """The toolchain can't be installed. `advice` is the next thing to do, in one sentence."""

    def __init__(self, message: str, advice: str) -> None:
        super().__init__(message)
        self.advice = advice


class CommandFailed(ToolchainError):
    """A program ended with an error; its output is in `log`."""

    def __init__(self, message: str, log: Path, advice: str) -> None:
        super().__init__(message, advice)
        self.log = log


class ChecksumMismatch(ToolchainError):
    """A downloaded file is not the one that was pinned. Nothing of that component was installed."""


class UnknownComponent(ToolchainError):
    """Somebody asked for a component that does not exist."""
