"""What a COPY gives, as a file that a parser reads."""

import psycopg


class CopyStream:
    """A COPY's output as a file to read from."""

    closed = False

    def __init__(self, copy: psycopg.Copy) -> None:
        self._copy = copy
        self._buffer = bytearray()
        self._ended = False

    def has_rows(self) -> bool:
        """Return whether there is anything to read; what was read for that isn't lost."""
        self._fill(1)
        return bool(self._buffer)

    def read(self, size: int = -1) -> bytes:
        """Return up to ``size`` bytes, all of the rest if it is negative; empty at the end."""
        self._fill(size if size >= 0 else None)
        data = bytes(self._buffer[:size] if size >= 0 else self._buffer)
        del self._buffer[: len(data)]
        return data

    def close(self) -> None:
        """Do nothing: the COPY ends with its cursor."""

    def _fill(self, size: int | None) -> None:
        while not self._ended and (size is None or len(self._buffer) < size):
            chunk = self._copy.read()
            self._ended = not chunk
            self._buffer += chunk
