# shellcheck shell=bash disable=SC2034
# How large records and requests may be, in bytes, so that a row of LARGEST_ROW_MIB comes through; sourced by the
# `start` of Kafka and of Connect.

if [[ ! $LARGEST_ROW_MIB =~ ^[1-9][0-9]{0,2}$ ]] || ((LARGEST_ROW_MIB > 500)); then
  echo "LARGEST_ROW_MIB=$LARGEST_ROW_MIB (.env): it must be a whole number from 1 to 500" >&2
  exit 2
fi
# An update may have the row before it, too. The rest is for keys, headers, and what a request says around a record.
record_bytes=$((LARGEST_ROW_MIB * 2097152 + 1048576))
request_bytes=$((record_bytes + 1048576))
# Kafka's own limit, where it is larger.
socket_bytes=$((request_bytes + 1048576 > 104857600 ? request_bytes + 1048576 : 104857600))
