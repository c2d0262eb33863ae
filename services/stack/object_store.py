"""The object store, with the operator's keys."""

from urllib.parse import urlsplit

from pyarrow.fs import S3FileSystem

from services.stack.endpoints import StackSettings


def object_store(settings: StackSettings) -> S3FileSystem:
    """Return the lake's object store, as a file system."""
    endpoint = urlsplit(settings.s3_endpoint)
    return S3FileSystem(
        access_key=settings.operator_s3_access_key.get_secret_value(),
        secret_key=settings.operator_s3_secret_key.get_secret_value(),
        endpoint_override=endpoint.netloc, scheme=endpoint.scheme, region=settings.s3_region,
    )  # fmt: skip
