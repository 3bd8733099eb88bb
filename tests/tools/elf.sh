#!/bin/sh
# elf.sh LIBRARY SONAME NEEDED_REGEX: a shared library has that soname, needs only libraries that
# match, and is hardened: read-only relocations bound at load, no executable stack, no text
# relocations.
set -eu

library=$1
soname=$2
needed=$3
found=$(mktemp)
trap 'rm -f "$found"' EXIT INT TERM

readelf -dW "$library" | awk -v needed="^($needed)$" -v soname="$soname" '
    /\((NEEDED|SONAME)\)/ { name = $NF; gsub(/[][]/, "", name) }
    /\(NEEDED\)/ && name !~ needed { print "needs '\''" name "'\''" }
    /\(SONAME\)/ { has = 1; if (name != soname) { print "soname is '\''" name "'\''" } }
    /\(TEXTREL\)/ { print "has text relocations" }
    /\(FLAGS\)/ && /BIND_NOW/ { now = 1 }
    /\(FLAGS_1\)/ && /NOW/ { now = 1 }
    END {
        if (!has) { print "has no soname" }
        if (!now) { print "is not bound at load (-z now)" }
    }' > "$found"
readelf -lW "$library" | awk '
    /GNU_RELRO/ { relro = 1 }
    /GNU_STACK/ { stack = 1; if ($0 ~ /RWE/) { print "has an executable stack" } }
    END {
        if (!relro) { print "has no read-only relocations (-z relro)" }
        if (!stack) { print "does not say that its stack is not executable" }
    }' >> "$found"
if [ -s "$found" ]; then
    sed "s|^|'$library' |" "$found"
    exit 1
fi
echo "elf: $soname is as it should be"
