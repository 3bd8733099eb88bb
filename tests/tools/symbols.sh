#!/bin/sh
# symbols.sh ARCHIVE: the objects of a static library have no writable global state (design,
# G13) and no global symbol outside our prefixes. Constant tables of pointers are in
# .data.rel.ro, which the loader makes read-only; thread-local data is in .tdata and .tbss.
# One exception, sqlite_handles: SQLite's table of locks is global to the process, so only a
# global can tell that a forked child has inherited it (src/backends/sqlite/driver.c).
set -eu

archive=$1
found=$(mktemp)
trap 'rm -f "$found"' EXIT INT TERM

objdump -t "$archive" | awk -F '\t' '
    /:     file format/ { object = $1; sub(/:.*/, "", object) }
    NF == 2 {
        # Value, flags and section before the tab; size, perhaps a visibility, and name after it.
        # A common symbol has the section *COM*.
        sub(/^.* /, "", $1)
        size = $2
        sub(/ .*$/, "", size)
        name = $2
        sub(/^.* /, "", name)
        if (object == "driver.c.o" && name == "sqlite_handles") {
            next
        }
        if ($1 ~ /^(\.bss|\.data|\*COM\*)/ && $1 !~ /^\.data\.rel\.ro/ && size !~ /^0+$/) {
            printf "%s: %s: writable global state in section %s\n", object, name, $1
        }
    }' > "$found"
nm -g --defined-only "$archive" | awk '
    /^[^ ]*:$/ { object = $1; sub(/:$/, "", object) }
    NF == 3 && $3 !~ /^(jobsched_|jsi_)/ {
        printf "%s: %s: global symbol outside the prefixes jobsched_ and jsi_\n", object, $3
    }' >> "$found"

if [ -s "$found" ]; then
    cat "$found"
    exit 1
fi
count=$(nm -g --defined-only "$archive" | awk 'NF == 3' | wc -l)
if [ "$count" -eq 0 ]; then
    echo "'$archive' defines nothing: there was nothing to check"
    exit 1
fi
echo "symbols: $count global symbols, no writable global state"
