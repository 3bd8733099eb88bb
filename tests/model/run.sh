#!/bin/sh
# run.sh: lets spin check the models of docs/model, and that it finds the deliberate mistakes in them.
#
#   sh tests/model/run.sh [--build-dir FOLDER] [--jobs N] [CASE...]
#   sh tests/model/run.sh --trail CASE     prints the shortest way to the mistake that it finds
#   sh tests/model/run.sh --list
#
# The cases are in tests/model/cases. Status 1 when a property fails, a mistake is not found, or a
# search did not look at everything.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
cases=$root/tests/model/cases
build=${TMPDIR:-/tmp}/jobsched-model
jobs=2
trail=
one=

# Bounds of a search: memory in MB, and depth. Reaching one is a failure, not a verdict. In lease.pml
# heartbeats can go on for ever, so its ways are long; mistakes are found on short ones.
memory_max=900
depth_max=10000
depth_lease=3000000

while [ $# -gt 0 ]; do
    case $1 in
    --build-dir | --jobs | --trail | --one)
        if [ $# -lt 2 ]; then
            echo "run.sh: '$1' needs a value" >&2
            exit 2
        fi
        ;;
    esac
    case $1 in
    --build-dir) build=$2; shift ;;
    --jobs) jobs=$2; shift ;;
    --trail) trail=$2; shift ;;
    --one) one=$2; shift ;; # a case, by this script for itself
    --list) grep -v '^#' "$cases" | cut -d '|' -f 1,2,5 | tr '|' '\t'; exit 0 ;;
    -h | --help) sed -n '2,/^set/ { s/^# \{0,1\}//p; }' "$0"; exit 0 ;;
    -*) echo "run.sh: unknown option '$1' (see --help)" >&2; exit 2 ;;
    *) break ;;
    esac
    shift
done

# case_of NAME: sets wanted, model, macros and words.
case_of()
{
    line=$(awk -F '|' -v name="$1" '$1 !~ /^#/ && $2 == name' "$cases")
    if [ -z "$line" ]; then
        echo "run.sh: no case '$1' (see --list)" >&2
        exit 2
    fi
    wanted=$(echo "$line" | cut -d '|' -f 1)
    model=$(echo "$line" | cut -d '|' -f 3)
    macros=$(echo "$line" | cut -d '|' -f 4)
    words=$(echo "$line" | cut -d '|' -f 5)
    case $wanted:$1:$macros in
    found:no_margin:* | found:*-DV_*) ;; # no_margin lacks a macro
    found:*) macros="$macros -DV_$(echo "$1" | tr '[:lower:]' '[:upper:]')" ;;
    esac
}

# make_search NAME LEVEL: the program that searches, in $build/NAME.
make_search()
{
    case_of "$1"
    rm -rf "${build:?}/$1"
    mkdir -p "$build/$1"
    cd "$build/$1"
    cp "$root/docs/model/$model.pml" .
    mode=-DSAFETY
    if [ "$wanted" = ends ]; then
        mode=-DNP
    fi
    # Macros hold no blanks.
    # shellcheck disable=SC2086
    spin -a $macros "$model.pml" > spin.log 2>&1 && [ -f pan.c ] &&
        "${CC:-cc}" "$2" -w "$mode" "-DMEMLIM=$memory_max" -o pan pan.c > cc.log 2>&1
}

# tell NAME VERDICT STATES: one line of the table.
tell()
{
    printf '%-5s %-24s %-8s %9s states  %s\n' "$wanted" "$1" "$2" "$3" "$words"
}

# check NAME: prints a line of the table; status 1 when it is not what must come out.
check()
{
    # Broken variants end soon: there the compiler's time is what counts. With -O2 gcc takes longer
    # than it saves.
    level=-O0
    depth=$depth_max
    case_of "$1"
    case $wanted in
    holds | ends) level=-O1 ;;
    esac
    case $wanted:$model in
    holds:lease) depth=$depth_lease ;;
    esac
    if ! make_search "$1" "$level"; then
        cat spin.log cc.log 2> /dev/null
        tell "$1" ERROR -
        return 1
    fi
    cycles=
    if [ "$wanted" = ends ]; then
        cycles=-l
    fi
    # shellcheck disable=SC2086 # empty, or one option
    ./pan $cycles -w22 "-m$depth" > pan.log 2>&1 || true
    states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*$/\1/p' pan.log)
    verdict=holds
    if grep -qE '^pan:[0-9]+: ' pan.log && [ -f "$model.pml.trail" ]; then
        verdict=found
    elif grep -qE 'max search depth too small|MEMLIM|out of memory|not completed|truncated' pan.log ||
        ! grep -q 'errors: 0$' pan.log; then
        verdict=CUT
    fi
    tell "$1" "$verdict" "${states:--}"
    case $wanted:$verdict in
    holds:holds | ends:holds | found:found | limit:found) return 0 ;;
    esac
    sed 's/^/    /' pan.log | grep -v unreached | head -n 20
    if [ "$verdict" = found ]; then
        print_trail | tail -n 40 | sed 's/^/    /'
    fi
    return 1
}

# What the models print on the way, and where it went wrong.
print_trail()
{
    # shellcheck disable=SC2086 # macros hold no blanks
    spin -T -t $macros "$model.pml" 2>&1 |
        sed -n '/^#processes/q; /^spin: trail ends/q; p'
}

if [ -n "$trail" ]; then
    make_search "$trail" -O1
    # The first depth that is enough gives a short way.
    for depth in 60 80 100 125 150 200 300 500 1000 "$depth_max" "$depth_lease"; do
        ./pan -w20 "-m$depth" > pan.log 2>&1 || true
        if [ -f "$model.pml.trail" ]; then
            break
        fi
    done
    if [ ! -f "$model.pml.trail" ]; then
        echo "no mistake is found in '$trail'"
        exit 0
    fi
    print_trail
    exit 0
fi

if [ -n "$one" ]; then
    status=0
    output=$(check "$one") || status=1
    printf '%s\n' "$output"
    exit "$status"
fi

if ! command -v spin > /dev/null 2>&1; then
    echo "run.sh: spin is not installed (Debian's package 'spin')" >&2
    exit 1
fi
if [ $# -eq 0 ]; then
    # Names hold no blanks.
    # shellcheck disable=SC2046
    set -- $(grep -v '^#' "$cases" | cut -d '|' -f 2)
fi
mkdir -p "$build"
status=0
printf '%s\n' "$@" | xargs -P "$jobs" -n 1 sh "$0" --build-dir "$build" --one || status=1
if [ "$status" -eq 0 ]; then
    echo "$# models: all as they must be"
else
    echo "some models are not as they must be (see above)"
fi
exit "$status"
