#!/bin/sh
# run.sh [SECONDS | --fixed [TARGET...]]: builds the fuzz targets with clang, libFuzzer,
# AddressSanitizer and UndefinedBehaviorSanitizer into build-fuzz, and runs each for that long (60
# unless given), beginning with the kept corpus and with what earlier runs found in build-fuzz/found.
# Two at a time, as each uses one processor. A finding is left in build-fuzz/crashes, its end of the
# log is printed, and the status is 1. A finding that is fixed belongs into tests/fuzz/corpus/TARGET.
#
# --fixed is for CI: the kept corpus, one seed and a number of runs, so that the same sources always
# give the same answer; what is new is found by the runs by time, which are random.
#
# JOBSCHED_FUZZ_BUILD names another folder to build in, CC another clang.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${JOBSCHED_FUZZ_BUILD:-$root/build-fuzz}
seconds=60
fixed=
if [ $# -gt 0 ]; then
    seconds=$1
    shift
fi
case $seconds in
--fixed)
    fixed=1
    seconds=600 # never reached unless the machine is ten times slower than any we know
    ;;
'' | *[!0-9]*) echo "usage: run.sh [SECONDS | --fixed [TARGET...]]" >&2; exit 2 ;;
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

mkdir -p "$build/crashes" "$build/fixed"
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

# Some 10 to 15 s each on one processor; a target that is not listed gets a modest number.
runs_of()
{
    case $1 in
    schedule) echo 120000 ;;
    tzif) echo 300000 ;;
    crontab) echo 80000 ;;
    calendar) echo 20000 ;;
    *) echo 20000 ;;
    esac
}

fuzz()
{
    target=$1
    log=$build/$target.log
    # A zone file or crontab can be long; a schedule that is longer than its limit says no more.
    length=4096
    case $target in
    schedule | calendar) length=400 ;;
    esac
    if [ -n "$fixed" ]; then
        # A folder of its own that nothing is read back from, and inputs named in order: a folder
        # is read in the order in which the file system keeps it.
        found=$build/fixed/$target
        rm -rf "$found"
        printf '%s\n' "$here/corpus/$target"/* | LC_ALL=C sort | paste -s -d , > "$found.list"
        least=$(runs_of "$target")
        set -- "-seed_inputs=@$found.list" -seed=1 "-runs=$least" -shuffle=0 -reload=0 -timeout=100
    else
        found=$build/found/$target
        least=1000 # nothing run is nothing shown
        set -- "$here/corpus/$target" -timeout=10
    fi
    mkdir -p "$found"
    if ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 \
        "$build/bin/live_$target" "$found" "$@" "-dict=$here/$target.dict" \
        "-max_total_time=$seconds" "-max_len=$length" -rss_limit_mb=2048 \
        -print_final_stats=1 "-artifact_prefix=$build/crashes/$target-" > "$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        took=$(sed -n 's/^Done [0-9]* runs in \([0-9]*\) second.*/\1/p' "$log")
        echo "$target: ${took:-?} s, ${runs:-?} runs, no finding"
        [ "${runs:-0}" -ge "$least" ]
    else
        tail -n 60 "$log"
        echo "$target: a finding, see $build/crashes" >&2
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
