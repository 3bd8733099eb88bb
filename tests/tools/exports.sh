#!/bin/sh
# exports.sh LIBRARY LIST [EXCEPT_REGEX HEADER...]: a shared library exports exactly the functions
# in LIST, and, when headers are named, LIST is exactly what they declare with JOBSCHED_API but
# for EXCEPT_REGEX. Compared both ways, so that neither can be forgotten.
#
# exports.sh --print EXCEPT_REGEX HEADER...: writes such a list.
set -eu

here=$(cd "$(dirname "$0")" && pwd)

declared()
{
    except=$1
    shift
    awk -f "$here/strip.awk" "$@" | cut -f 3 | awk -v except="$except" '
        /^ *#/ { next }
        / *JOBSCHED_API/ { statement = " " }
        statement != "" { statement = statement " " $0 }
        statement != "" && /;/ {
            if (match(statement, /jobsched_[a-z0-9_]+ *\(/)) {
                name = substr(statement, RSTART, RLENGTH)
                sub(/ *\($/, "", name)
                if (name !~ ("^(" except ")$")) {
                    print name
                }
            }
            statement = ""
        }' | LC_ALL=C sort
}

if [ "$1" = --print ]; then
    shift
    declared "$@"
    exit 0
fi

library=$1
list=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
failed=0

# compare WANTED FOUND LESS MORE: tells what is in one of two sorted lists only.
compare()
{
    LC_ALL=C comm -23 "$1" "$2" | sed "s/^/$3: /" > "$work/difference"
    LC_ALL=C comm -13 "$1" "$2" | sed "s/^/$4: /" >> "$work/difference"
    if [ -s "$work/difference" ]; then
        cat "$work/difference"
        failed=1
    fi
}

LC_ALL=C sort "$list" > "$work/list"
# Symbol versions are cut off; undefined ones are what the library needs, not what it offers.
nm -D --defined-only "$library" | awk '{ sub(/@.*/, "", $NF); print $NF }' |
    LC_ALL=C sort > "$work/exported"
compare "$work/list" "$work/exported" "not exported by the library" "exported, but not in the list"
if [ $# -gt 0 ]; then
    declared "$@" > "$work/declared"
    compare "$work/declared" "$work/list" "declared, but not in the list" \
        "in the list, but not declared"
fi
if [ ! -s "$work/list" ]; then
    echo "'$list' is empty"
    failed=1
fi
if [ "$failed" -ne 0 ]; then
    exit 1
fi
echo "exports: $(wc -l < "$work/list") functions, as listed"
