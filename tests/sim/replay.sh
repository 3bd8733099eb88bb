#!/bin/sh
# replay.sh SIM_MUTANTS: what the simulator prints of a violation is a command that shows it again, as
# found and made smaller.
set -eu

program=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# fails ARGUMENT...: runs it with a deliberate fault in the engine, and shows what is violated.
fails()
{
    status=0
    "$program" "$@" > "$work/said" || status=$?
    if [ "$status" -ne 1 ] || ! grep -q '^seed [0-9]* trace .*: G8 ' "$work/said"; then
        echo "status $status, and no violation of G8 from: $*" >&2
        cat "$work/said" >&2
        exit 1
    fi
    sed -n 's/^seed [0-9]* trace .*: \(G8 .*\)/\1/p' "$work/said"
}

replayed()
{
    line=$(sed -n "s/^replay: $(basename "$program") \([^(]*\).*/\1/p" "$work/said")
    echo "replay: $line"
    [ -n "$line" ]
    # The line is words without quotes.
    # shellcheck disable=SC2086
    fails $line
}

first=$(fails --mutant unknown_is_lost --seeds 1..30 --only lost-reply,late --stop)
again=$(replayed)
printf '%s\n%s\n' "$first" "$again"
[ "$first" = "$(printf '%s\n' "$again" | tail -n 1)" ]

fails --mutant unknown_is_lost --seeds 1..30 --only lost-reply,late --stop --shrink > /dev/null
grep -q '^shrunk in [0-9]* tries: G8 ' "$work/said"
replayed
