#!/bin/sh
# counts.sh BUILD [--raise]: after all tests have run in BUILD (tests/run.sh without --label and the
# like): none was left out, and there are no fewer than tests/tools/floors.txt says. Tests disappear
# silently when a condition in a CMakeLists.txt goes wrong or a table of tests loses a row.
#   tests      what ctest calls a test
#   functions  what cmocka calls one, in all programs together
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
floors=$root/tests/tools/floors.txt
if [ $# -lt 1 ]; then
    sed -n '2,/^set/ { s/^# \{0,1\}//p; }' "$0"
    exit 2
fi
build=$1
log=$build/Testing/Temporary/LastTest.log
if [ ! -f "$log" ]; then
    echo "no tests have run in '$build'"
    exit 1
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# Asking ctest what there is makes the log anew.
cp "$log" "$work/log"
known=$(ctest --test-dir "$build" -N | sed -n 's/^Total Tests: //p')
cp "$work/log" "$log"

status=0
if grep -nE '^\[  SKIPPED \]|^Test Skipped|\*\*\*(Skipped|Not Run)' "$log"; then
    echo "tests were skipped (see above); what cannot run here has to fail"
    status=1
fi
tests=$(grep -cE '^[0-9]+/[0-9]+ Test: ' "$log" || true)
functions=$(sed -n 's/^\[==========\] \([0-9]*\) test(s) run\.$/\1/p' "$log" |
    awk '{ sum += $1 } END { print sum + 0 }')
echo "$tests tests, $functions functions in them"
if [ "$tests" -ne "$known" ]; then
    echo "$known tests are known, but $tests ran"
    status=1
fi
for pair in "tests $tests" "functions $functions"; do
    floor=$(awk -v name="${pair% *}" '$1 == name { print $2 }' "$floors")
    if [ "${pair#* }" -lt "${floor:-0}" ]; then
        echo "${pair% *}: ${pair#* } is less than the floor of $floor"
        status=1
    fi
    echo "$pair" >> "$work/new"
done
if [ "${2:-}" = --raise ]; then
    sh "$root/tests/tools/floors.sh" --raise "$work/new"
fi
exit "$status"
