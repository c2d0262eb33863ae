"""Read and write the lake's files from Python, by pyarrow: where they are and how to reach it is the catalog's."""

from functools import cache
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.fs as pafs
from pyspark.sql import SparkSession

from pipelines.spark.session import CATALOG

S3_SCHEMES = ("s3", "s3a", "s3n")


class Storage:
    """The files of the lake, by the location that Iceberg knows them by. Safe to use from several threads.

    Credentials are the process's own, as Iceberg's: the environment's, or what the machine is given.
    """

    def __init__(self, endpoint: str | None = None, region: str | None = None) -> None:
        self._endpoint, self._region = endpoint, region
        self._local = pafs.LocalFileSystem()
        self._s3: pafs.FileSystem | None = None

    @classmethod
    def of(cls, spark: SparkSession) -> "Storage":
        """Return the storage that a session's catalog uses."""
        catalog = f"spark.sql.catalog.{CATALOG}"
        return _storage(
            spark.conf.get(f"{catalog}.s3.endpoint", None), spark.conf.get(f"{catalog}.client.region", None)
        )

    def open(self, location: str) -> pa.NativeFile:
        """Open a file to read any part of it. Raises OSError."""
        files, path = self._at(location)
        return files.open_input_file(path)

    def write(self, location: str, data: pa.Buffer) -> None:
        """Write a whole new file. Raises OSError; nothing refers to what is there then."""
        files, path = self._at(location)
        if files is self._local:
            files.create_dir(path.rsplit("/", 1)[0])
        with files.open_output_stream(path) as stream:
            stream.write(data)

    def _at(self, location: str) -> tuple[pafs.FileSystem, str]:
        # Not as a URL is taken apart: what follows a question mark or a hash is part of a name.
        scheme, _, path = location.partition("://")
        if scheme in S3_SCHEMES:
            return self._buckets(), path
        return self._local, path or location.removeprefix("file:")

    def _buckets(self) -> pafs.FileSystem:
        if self._s3 is None:
            where = urlsplit(self._endpoint or "")
            # Small files are written by one request each, not by the three of an upload in parts.
            self._s3 = pafs.S3FileSystem(
                endpoint_override=where.netloc or None,
                scheme=where.scheme or None,
                region=self._region,
                allow_delayed_open=True,
                request_timeout=60,
                connect_timeout=10,
            )
        return self._s3


@cache
def _storage(endpoint: str | None, region: str | None) -> Storage:
    return Storage(endpoint, region)
