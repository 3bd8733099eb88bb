#!/bin/sh
# coverage.sh BUILD [--raise] [--uncovered]: what part of the library ran, after tests in a build that
# was made with -DJOBSCHED_COVERAGE=ON (tests/run.sh --coverage does both and calls this).
#
# Prints lines and branches for each room, and fails where less ran than tests/tools/floors.txt says.
#   --raise      writes what is more than the floors into them, with half a percent to spare for what
#                depends on timing; a floor never falls
#   --uncovered  lists the lines that did not run
#
# Branches of assertions that hold are not counted: none of ours is ever false.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
floors=$root/tests/tools/floors.txt
build=
raise=
uncovered=
for argument in "$@"; do
    case $argument in
    --raise) raise=1 ;;
    --uncovered) uncovered=1 ;;
    -*) echo "coverage.sh: unknown option '$argument'" >&2; exit 2 ;;
    *) build=$(cd "$argument" && pwd) ;;
    esac
done
if [ -z "$build" ]; then
    sed -n '2,/^set/ { s/^# \{0,1\}//p; }' "$0"
    exit 2
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM

# Processes that were killed leave nothing or, in the moment of writing, half a file.
cd "$root"
# One thread: with more, gcovr 5.2 hangs where it should fail, for example when objects that were
# built of different sources lie side by side.
if ! timeout 300 gcovr --root "$root" --object-directory "$build" -j 1 --gcov-ignore-parse-errors \
    --filter "$root/src/" --exclude-unreachable-branches \
    --exclude-branches-by-pattern '.*(JSI_ASSERT|JSI_REQUIRE|assert)\(.*' \
    --json-summary "$work/summary.json" --csv "$work/files.csv" --txt "$work/lines.txt" \
    "$build/src" > "$work/gcovr.log" 2>&1; then
    tail -n 20 "$work/gcovr.log"
    exit 1
fi

# filename,line_total,line_covered,line_percent,branch_total,branch_covered,...
awk -F ',' '
NR > 1 {
    room = $1
    if (room ~ /^src\/backends\//) { sub(/^src\/backends\//, "", room); sub(/\/.*$/, "", room) }
    else { sub(/^src\//, "", room); sub(/\/.*$/, "", room) }
    lines[room] += $2; ran[room] += $3; branches[room] += $5; taken[room] += $6
    # What the issue asks about: engine, schedule, backends.
    if ($1 ~ /^src\/(engine|schedule|backends)\//) {
        lines["all"] += $2; ran["all"] += $3; branches["all"] += $5; taken["all"] += $6
    }
}
END {
    for (room in lines) {
        printf "%s %d %d %d %d\n", room, ran[room], lines[room], taken[room], branches[room]
    }
}' "$work/files.csv" | sort > "$work/rooms"
if ! grep -q '^all ' "$work/rooms"; then
    echo "nothing of the library ran, or '$build' was not made with -DJOBSCHED_COVERAGE=ON"
    exit 1
fi

awk '
FILENAME ~ /floors.txt$/ { if ($1 !~ /^#/ && NF >= 2) { floor[$1] = $2 } next }
function percent(part, whole) { return whole > 0 ? 100 * part / whole : 100 }
function judge(name, value) {
    if (name in floor && value < floor[name]) {
        bad[++faults] = sprintf("%s: %.1f %% is less than the floor of %.1f %%", name, value, floor[name])
    }
    printf "%s %.2f\n", name, value > values
}
BEGIN { printf "%-12s %20s %20s\n", "", "lines", "branches" }
{
    l = percent($2, $3); b = percent($4, $5)
    printf "%-12s %6d of %6d %5.1f%% %6d of %6d %5.1f%%\n", $1, $2, $3, l, $4, $5, b
    judge("lines-" $1, l)
    judge("branches-" $1, b)
}
END {
    for (i = 1; i <= faults; i++) { print bad[i] }
    exit faults > 0
}' values="$work/values" "$floors" "$work/rooms" && status=0 || status=1

if [ -n "$uncovered" ]; then
    # A long name stands on a line of its own.
    awk '/^src\// { name = $1; if (NF == 1) { next } $1 = "" }
        name != "" && $NF !~ /%$/ && NF > 3 { print name ": " $NF } { name = "" }' "$work/lines.txt"
fi
if [ -n "$raise" ]; then
    awk '{ printf "%s %.1f\n", $1, $2 - 0.5 }' "$work/values" > "$work/new"
    sh "$root/tests/tools/floors.sh" --raise "$work/new"
fi
exit "$status"
