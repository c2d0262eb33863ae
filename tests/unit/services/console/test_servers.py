"""What servers say of themselves, as they say it."""

from urllib.parse import parse_qs

import httpx

from pipelines.metrics.meter import Meter
from services.console.house import House
from services.console.look.servers import PrometheusPart
from services.console.pages.overview import _values

UP = ("mirror", "kafka", "object-store", "source-db")
# As Prometheus answers: each series once, by its job.
TOLD = {
    "lakehouse_service_memory_bytes": ("mirror", 3_000), "process_resident_memory_bytes": ("kafka", 2_000),
    "minio_node_process_resident_memory_bytes": ("object-store", 1_000),
}  # fmt: skip


def answer(request: httpx.Request) -> httpx.Response:
    (query,) = parse_qs(request.url.query.decode())["query"]
    found = [(job, 1) for job in UP] if query == "up" else [TOLD[name] for name in query.split(" or ") if name in TOLD]
    result = [{"metric": {"job": job}, "value": [0, f"{value}"]} for job, value in found]
    return httpx.Response(200, json={"data": {"result": result}})


def test_memory_is_told_by_three_names_and_the_page_says_whose_isnt() -> None:
    part, house = PrometheusPart("http://prometheus"), House()
    part._client = httpx.Client(base_url="http://prometheus", transport=httpx.MockTransport(answer))
    part.look(house, Meter("console"))
    assert house.memory == {"mirror": 3_000, "kafka": 2_000, "object-store": 1_000}
    assert _values(house)["untold"] == ["source-db"]
