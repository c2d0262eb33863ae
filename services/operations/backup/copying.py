"""Copy files of the lake between the object store and a folder, several at a time."""

import os
import shutil
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from pyarrow.fs import FileType, S3FileSystem

from services.stack.progress import OnProgress, Progress

AT_ONCE = 8
CHUNK = 8 << 20


def save(store: S3FileSystem, location: str, path: Path) -> int:
    """Copy a file of the lake to ``path``, unless it is there whole; return its bytes.

    Files of the lake never change. Raises FileNotFoundError where the store hasn't got it, and OSError.
    """
    key = location.removeprefix("s3://")
    info = store.get_file_info(key)
    if info.type != FileType.File:
        raise FileNotFoundError(location)
    if not (path.exists() and path.stat().st_size == info.size):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.name}.part")
        with store.open_input_stream(key) as source, part.open("wb") as target:
            shutil.copyfileobj(source, target, CHUNK)
            target.flush()
            os.fsync(target.fileno())
        part.replace(path)
    return int(info.size)


def put_back(store: S3FileSystem, path: Path, location: str) -> bool:
    """Copy a saved file into the lake's store, unless it is there whole; return whether it wasn't. Raises OSError."""
    key = location.removeprefix("s3://")
    info = store.get_file_info(key)
    if info.type == FileType.File and info.size == path.stat().st_size:
        return False
    with path.open("rb") as source, store.open_output_stream(key) as target:
        shutil.copyfileobj(source, target, CHUNK)
    return True


def missing(store: S3FileSystem, locations: Collection[str]) -> set[str]:
    """Return those of ``locations`` that the store hasn't got."""
    every = sorted(locations)
    found = store.get_file_info([location.removeprefix("s3://") for location in every])
    return {location for location, info in zip(every, found, strict=True) if info.type != FileType.File}


def each(
    locations: Iterable[str], work: Callable[[str], int], subject: str, what: str, on_progress: OnProgress
) -> dict[str, int | FileNotFoundError]:
    """Do ``work`` with each location; return what it gave, or that there is no such file. Raises OSError."""
    every = sorted(set(locations))
    done: dict[str, int | FileNotFoundError] = {}
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="copy") as pool:
        running = {pool.submit(work, location): location for location in every}
        for future in as_completed(running):
            try:
                done[running[future]] = future.result()
            except FileNotFoundError as error:
                done[running[future]] = error
            on_progress(Progress(subject, what, len(done), len(every)))
    return done
