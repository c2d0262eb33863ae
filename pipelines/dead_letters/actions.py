"""The names of the actions: what people did about dead letters. Written by services, read by the mirror."""

# An erased letter isn't in the table any more; that it was is all that is left of it.
REPLAYED, DISCARDED, ERASED = "replayed", "discarded", "erased"
CLOSED = (REPLAYED, DISCARDED, ERASED)
# The letter is about to be put back, by the replay of this number; whether it was, Kafka tells
# (services.operations.dead_letters.replay).
REPLAYING = "replaying"
# An action that is of no letter: whatever lies below its position may become one (see
# pipelines.dead_letters.circuit_breaker).
ACCEPTED = "accepted"
# As well: what lies below its position, and a table that is held lacks, was given up (see pipelines.progress.holds).
GIVEN_UP = "given_up"
