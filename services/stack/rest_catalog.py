"""PyIceberg's REST catalog with a time limit: by itself it waits for an answer for ever."""

from typing import Any

from pyiceberg.catalog.rest import RestCatalog
from requests import PreparedRequest, Response, Session
from requests.adapters import HTTPAdapter

TIMEOUT_SECONDS = "lakehouse.timeout-seconds"


class _LimitedAdapter(HTTPAdapter):
    def __init__(self, seconds: float) -> None:
        super().__init__()
        self._seconds = seconds

    def send(self, request: PreparedRequest, *arguments: Any, **others: Any) -> Response:
        if others.get("timeout") is None:
            others["timeout"] = self._seconds
        return super().send(request, *arguments, **others)


class LimitedRestCatalog(RestCatalog):
    """A REST catalog whose server has ``lakehouse.timeout-seconds`` for each connection and each part of an answer.

    Raises requests' Timeout after that. A commit may have been made all the same.
    """

    def _create_session(self) -> Session:
        session = super()._create_session()
        for scheme in ("http://", "https://"):
            session.mount(scheme, _LimitedAdapter(float(self.properties[TIMEOUT_SECONDS])))
        return session
