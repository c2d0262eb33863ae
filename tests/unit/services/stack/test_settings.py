"""The settings of whoever looks at the stack can be loaded from what `make env` writes."""

from pathlib import Path

import pytest

from infra.toolchain.environment import complete
from services.capture.settings import StatusSettings
from services.stack.endpoints import StackSettings
from services.stack.settings import ServiceSettings
from services.verifier.settings import VerifierSettings


@pytest.mark.parametrize("kind", [StackSettings, StatusSettings, VerifierSettings])
def test_they_are_loaded_from_what_is_written_for_them(tmp_path: Path, kind: type[ServiceSettings]) -> None:
    """Also by a class that has fewer endpoints than those that it stands on."""
    environment, _ = complete("")
    path = tmp_path / ".env"
    path.write_text(environment, encoding="utf-8")
    assert kind.load(path)
