#!/bin/sh
# same.sh SIM: one seed gives one trace: run twice, every seed must print the same hash; and the
# traces of different seeds differ.
set -eu

first=$("$1" --seeds 1..4 --verbose | grep '^seed')
again=$("$1" --seeds 1..4 --verbose | grep '^seed')
different=$(printf '%s\n' "$first" | sed 's/.*trace \([0-9a-f]*\).*/\1/' | sort -u | wc -l)
printf '%s\n' "$first"
[ "$first" = "$again" ] && [ "$different" -eq 4 ]
