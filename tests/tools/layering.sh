#!/bin/sh
# layering.sh [ROOT]: who may know whom, and what sources may not say (design, section 4).
# Prints every violation as "file:line: what is wrong" and fails if there is one.
# The rules on single lines are in layering.awk; those on whole files are here.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/../..}"

lines_max=600    # of a file in src/: beyond that a reader finds two things in it
function_max=80  # lines of a function body: one screen and a little

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
found=$work/found

list_files()
{
    for folder in "$@"; do
        if [ -d "$folder" ]; then
            find "$folder" -type f \( -name '*.c' -o -name '*.h' \) -print
        fi
    done | LC_ALL=C sort
}

list_files src include examples tests > "$work/files"
if [ ! -s "$work/files" ]; then
    echo "no sources below '$PWD'"
    exit 1
fi
# No blanks in our file names, so the list may be split into words.
# shellcheck disable=SC2046
awk -f "$here/strip.awk" $(cat "$work/files") > "$work/stripped"
awk -f "$here/layering.awk" "$work/stripped" "$work/stripped" > "$found"

# Length of files and functions, and notes to oneself.
list_files src > "$work/src"
list_files src include > "$work/ours"
# shellcheck disable=SC2046 # the same
awk -v lines_max="$lines_max" -v function_max="$function_max" '
    FNR == lines_max + 1 && FILENAME ~ /^src\// {
        printf "%s:%d: more than %d lines\n", FILENAME, FNR, lines_max
    }
    /^{/ { start = FNR }
    /^}/ {
        if (start > 0 && FNR - start - 1 > function_max) {
            printf "%s:%d: a function of %d lines, at most %d\n", FILENAME, start,
                FNR - start - 1, function_max
        }
        start = 0
    }
    /(^|[^A-Za-z0-9_])(TODO|XXX)([^A-Za-z0-9_]|$)/ || (/FIXME/ && !/FIXME\(#[0-9]+\)/) {
        printf "%s:%d: a note without an issue number\n", FILENAME, FNR
    }' $(cat "$work/ours") /dev/null >> "$found"

# The doors exist: once there is an engine, the rules that name them are not vacuous.
check_door()
{
    if ! grep -qE "$2" "$1" 2> /dev/null; then
        echo "$1:1: $3" >> "$found"
    fi
}
if grep -q 'src/engine/.*jobsched_open(' "$work/stripped"; then
    for operation in open close announce claim finish renew reap control runs; do
        check_door src/engine/backend_call.c "(->|\.)$operation\)?\(" \
            "backend operation '$operation' is not called in its one place"
    done
    check_door src/engine/call_job.c '(->|\.)run\(' "jobs are not called in their one place"
    check_door src/engine/observer.c '(->|\.)observer\(' \
        "observers are not called in their one place"
fi

if [ -s "$found" ]; then
    cat "$found"
    echo "layering: $(wc -l < "$found") violations"
    exit 1
fi
echo "layering: $(wc -l < "$work/files") files, no violation"
