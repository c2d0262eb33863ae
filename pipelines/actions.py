"""The words of the table of actions: what people did about dead letters. Written by services, read by the mirror."""

NAMESPACE, TABLE = "lakehouse", "dead_letter_actions"
REPLAYED, DISCARDED = "replayed", "discarded"
# The action that is of no letter: whatever lies below its position may become one (see pipelines.breaker).
ACCEPTED = "accepted"
