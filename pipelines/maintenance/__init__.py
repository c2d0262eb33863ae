"""Maintenance: what keeps tables small and fast, done by the mirror itself in the pauses between its batches.

So no commit of the one is ever in the way of the other. See infra/decisions/024-maintenance.md.
"""
