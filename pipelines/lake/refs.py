"""A table's branches and tags."""

from pipelines.lake.table import LakeTable

MAIN = "main"


def create_branch(table: LakeTable, branch: str) -> LakeTable:
    """Create a branch at the table's current snapshot, and return the table on it."""
    table.java.manageSnapshots().createBranch(branch).commit()
    table.refresh()
    return table.on_branch(branch)


def remove_branch(table: LakeTable, branch: str) -> None:
    """Remove a branch, if the table has it."""
    table.refresh()
    if branch in table.branches:
        table.java.manageSnapshots().removeBranch(branch).commit()
        table.refresh()


def publish_branch(table: LakeTable, branch: str) -> None:
    """Let readers of the table see what a branch has, and remove the branch, in one commit."""
    table.java.manageSnapshots().fastForwardBranch(MAIN, branch).removeBranch(branch).commit()
    table.refresh()


def put_tag(table: LakeTable, tag: str, snapshot: int, max_age_ms: int) -> None:
    """Tag a snapshot, which is kept for so long; a tag of that name goes."""
    manage = table.java.manageSnapshots()
    tagged = manage.replaceTag if tag in table.branches else manage.createTag
    tagged(tag, snapshot).setMaxRefAgeMs(tag, max_age_ms).commit()


def remove_other_refs(table: LakeTable) -> None:
    """Remove every branch and tag but ``main`` and the one that the table is looked up on."""
    others = {name: ref for name, ref in dict(table.java.refs()).items() if name not in (MAIN, table.branch)}
    manage = table.java.manageSnapshots()
    for name, ref in others.items():
        manage = manage.removeTag(name) if ref.isTag() else manage.removeBranch(name)
    if others:
        manage.commit()
