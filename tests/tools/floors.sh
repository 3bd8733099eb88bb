#!/bin/sh
# floors.sh [--raise FILE]: the numbers in tests/tools/floors.txt only ever rise. Fails when one is less
# than it was in any commit before. With --raise: takes what is larger in FILE ("name value" lines)
# into the floors that there are.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cd "$root"
floors=tests/tools/floors.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

if [ "${1:-}" = --raise ]; then
    # The comments stay where they are.
    awk 'NR == FNR { value[$1] = $2; next }
        /^#/ || NF < 2 { print; next }
        { if ($1 in value && value[$1] > $2) { $2 = value[$1] } print $1, $2 }' \
        "$2" "$floors" > "$work/floors"
    cat "$work/floors" > "$floors"
    exit 0
fi

# A tree without its history, such as a released one, has nothing to compare with.
if ! git rev-parse --git-dir > /dev/null 2>&1; then
    echo "no history: $(grep -cv '^#' "$floors") floors taken as they are"
    exit 0
fi
: > "$work/before"
for commit in $(git log --format=%H -- "$floors"); do
    git show "$commit:$floors" >> "$work/before" 2> /dev/null || true # where it was removed
done
awk 'FILENAME ~ /before$/ { if ($1 !~ /^#/ && NF >= 2 && $2 > most[$1]) { most[$1] = $2 } next }
    $1 !~ /^#/ && NF >= 2 { count++; now[$1] = $2 }
    END {
        for (name in most) {
            is = name in now ? now[name] : "gone"
            if (is + 0 < most[name]) {
                printf "floor \047%s\047 is %s; it was %s before and may only rise\n", name, is,
                    most[name]
                bad = 1
            }
        }
        if (!bad) { printf "%d floors, none has fallen\n", count }
        exit bad
    }' "$work/before" "$floors"
