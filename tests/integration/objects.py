"""What the objects of a stack's lake say, whether a table knows them or not."""

import io
from collections.abc import Iterator

import fastavro
import pyarrow.parquet as pq
from minio import Minio

from tests.integration.stack import Stack


def texts(stack: Stack, *folders: str) -> Iterator[tuple[str, str]]:
    """The name of each object below these folders of the bucket, and its content, decoded."""
    env = stack.endpoints
    store = Minio(env["s3_endpoint"].removeprefix("http://"), env["s3_access_key"], env["s3_secret_key"],
                  secure=False, region=env["s3_region"])  # fmt: skip
    for folder in folders:
        for found in store.list_objects(env["s3_bucket"], folder, recursive=True):
            name = found.object_name or ""
            yield name, _text(name, store.get_object(env["s3_bucket"], name).read())


def _text(name: str, data: bytes) -> str:
    if name.endswith(".parquet"):
        return repr(pq.read_table(io.BytesIO(data)).to_pylist())
    return repr(list(fastavro.reader(io.BytesIO(data)))) if name.endswith(".avro") else data.decode()
