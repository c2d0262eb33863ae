"""What a source's database may answer instead of what it was asked."""


class SourceError(Exception):
    """A database refuses, or can't do, what it was asked.

    ``kind``: what the database is, for people. ``sentence``: what its server says, in one line. The error's own text is
    all that the client found out.
    """

    def __init__(self, kind: str, sentence: str, text: str | None = None) -> None:
        super().__init__(sentence if text is None else text)
        self.kind, self.sentence = kind, sentence


class SourceUnavailable(SourceError):
    """The database doesn't answer, or not in time; the same may work a little later."""


class SourceLocked(SourceUnavailable):
    """Somebody else has a table locked: who changes the source goes first."""


class SourceUnreadable(SourceError):
    """One statement can't be carried out as the database is now: something isn't there, allowed or representable."""


class NotPrepared(SourceError):
    """The database isn't prepared for capture. The message says what to look at."""
