"""Maintain tables: keep them small and fast, in the mirror itself, in the pauses between its batches.

So no commit of the one is ever in the way of the other. See infra/decisions/024-maintenance.md.
"""
