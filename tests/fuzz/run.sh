#!/bin/sh
# run.sh [SECONDS [TARGET...]]: builds the fuzz targets with clang, libFuzzer, AddressSanitizer and
# UndefinedBehaviorSanitizer into build-fuzz, and runs each for that long (60 unless given), beginning
# with the kept corpus and with what earlier runs found in build-fuzz/found. Two at a time, as each
# uses one processor. A finding is left in build-fuzz/crashes, its end of the log is printed, and the
# status is 1. A finding that is fixed belongs into tests/fuzz/corpus/TARGET.
#
# JOBSCHED_FUZZ_BUILD names another folder to build in, CC another clang.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${JOBSCHED_FUZZ_BUILD:-$root/build-fuzz}
seconds=60
if [ $# -gt 0 ]; then
    seconds=$1
    shift
fi
case $seconds in
'' | *[!0-9]*) echo "usage: run.sh [SECONDS [TARGET...]]" >&2; exit 2 ;;
esac
if [ $# -eq 0 ]; then
    set -- schedule tzif crontab calendar
fi
if [ -z "${CC:-}" ]; then
    CC=clang
    if command -v clang-14 > /dev/null 2>&1; then
        CC=clang-14
    fi
fi

mkdir -p "$build/crashes"
programs=
for target in "$@"; do
    programs="$programs live_$target"
done
# The library is watched by the fuzzer too, so everything is compiled for it.
# shellcheck disable=SC2086
if ! { CC=$CC cmake -G Ninja -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
    -DCMAKE_C_FLAGS=-fsanitize=fuzzer-no-link -DJOBSCHED_SANITIZE=address,undefined \
    -DJOBSCHED_ASSERTIONS=ON -DJOBSCHED_BUILD_SQLITE=OFF -DJOBSCHED_BUILD_CTL=OFF \
    -DJOBSCHED_BUILD_FUZZERS=ON && ninja -C "$build" -j 2 $programs; } \
    > "$build/build.log" 2>&1; then
    cat "$build/build.log"
    exit 1
fi

fuzz()
{
    found=$build/found/$1
    log=$build/$1.log
    mkdir -p "$found"
    # A zone file or crontab can be long; a schedule that is longer than its limit says no more.
    length=4096
    case $1 in
    schedule | calendar) length=400 ;;
    esac
    if ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 \
        "$build/bin/live_$1" "$found" "$here/corpus/$1" "-dict=$here/$1.dict" \
        "-max_total_time=$seconds" "-max_len=$length" -timeout=10 -rss_limit_mb=2048 \
        -print_final_stats=1 "-artifact_prefix=$build/crashes/$1-" > "$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        echo "$1: ${seconds} s, ${runs:-?} runs, no finding"
        # Nothing run is nothing shown.
        [ "${runs:-0}" -gt 1000 ]
    else
        tail -n 60 "$log"
        echo "$1: a finding, see $build/crashes" >&2
        return 1
    fi
}

failed=0
waiting=
count=0
for target in "$@"; do
    fuzz "$target" &
    waiting="$waiting $!"
    count=$((count + 1))
    if [ $((count % 2)) -eq 0 ]; then
        for one in $waiting; do
            wait "$one" || failed=1
        done
        waiting=
    fi
done
for one in $waiting; do
    wait "$one" || failed=1
done
exit "$failed"
