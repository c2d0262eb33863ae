"""What the environment's proxies are kept out of."""

import urllib.request

import pytest

from pipelines.proxies import bypass_proxies


@pytest.mark.parametrize("before", [None, "", "corp.example", "corp.example,127.0.0.1"])
def test_the_stack_is_asked_without_a_proxy(monkeypatch: pytest.MonkeyPatch, before: str | None) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    for name in ("no_proxy", "NO_PROXY"):
        if before is None:
            monkeypatch.delenv(name, raising=False)
        else:
            monkeypatch.setenv(name, before)
    bypass_proxies(["http://catalog:8181/catalog", "kafka:9092", "http://[::1]:9000"])
    through_none = ["catalog", "kafka", "localhost", "127.0.0.1", *(["corp.example"] if before else [])]
    assert [host for host in through_none if not urllib.request.proxy_bypass_environment(host)] == []
    assert not urllib.request.proxy_bypass_environment("else.example")
