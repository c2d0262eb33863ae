"""Small files of state."""

from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write a file so that whoever reads it finds all of the old text or all of the new."""
    fresh = path.with_name(f"{path.name}.new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
