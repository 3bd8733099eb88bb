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
# shellcheck disable=SC2317 # fuzz_$way is called by its composed name
set -eu

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
build=${JOBSCHED_FUZZ_BUILD:-$root/build-fuzz}
seconds=60
way=random
if [ $# -gt 0 ]; then
    seconds=$1
    shift
fi
case $seconds in
--fixed)
    way=fixed
    seconds=600 # never reached unless the machine is ten times slower than any we know
    ;;
'' | *[!0-9]*) echo "usage: run.sh [SECONDS | --fixed [TARGET...]]" >&2; exit 2 ;;
esac
if [ $# -eq 0 ]; then
    set -- schedule tzif crontab calendar setting override url redis postgres
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
    -DJOBSCHED_ASSERTIONS=ON -DJOBSCHED_BUILD_SQLITE=ON -DJOBSCHED_BUILD_POSTGRES=ON \
    -DJOBSCHED_BUILD_REDIS=ON -DJOBSCHED_BUILD_CTL=OFF \
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
    setting) echo 30000 ;;
    override) echo 4000 ;;
    url) echo 8000 ;;
    redis) echo 6000 ;;
    postgres) echo 3000 ;;
    *) echo 20000 ;;
    esac
}

# libFuzzer tries what the code compares with, and that may be an address: these must be the same
# each time, too. So no random layout, and nothing on the stack that depends on who calls.
straight="setarch $(uname -m) -R"
if ! $straight true 2> /dev/null; then
    straight=
fi

# fuzz_fixed TARGET OPTION...: in a folder of its own, with relative paths. The inputs are named in
# order; a folder would be read in the order in which the file system keeps it.
fuzz_fixed()
{
    area=$build/fixed/$1
    program=../../bin/live_$1
    runs=$(runs_of "$1")
    rm -rf "$area"
    mkdir -p "$area/new"
    cp -R "$here/corpus/$1" "$area/in"
    cp "$here/$1.dict" "$area/dict"
    cd "$area"
    shift
    printf '%s\n' in/* | LC_ALL=C sort | paste -s -d , > list
    if [ -z "$straight" ]; then
        set -- -use_cmp=0 "$@"
    fi
    # shellcheck disable=SC2086 # nothing or three words
    env -i ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 $straight \
        "$program" new -seed_inputs=@list -seed=1 "-runs=$runs" -shuffle=0 -reload=0 -dict=dict \
        -artifact_prefix=found- -timeout=100 "$@"
}

fuzz_random()
{
    target=$1
    shift
    mkdir -p "$build/found/$target"
    ASAN_OPTIONS=detect_stack_use_after_return=1 UBSAN_OPTIONS=print_stacktrace=1 \
        "$build/bin/live_$target" "$build/found/$target" "$here/corpus/$target" \
        "-dict=$here/$target.dict" "-artifact_prefix=$build/crashes/$target-" -timeout=10 "$@"
}

fuzz()
{
    log=$build/$1.log
    # A zone file or crontab can be long; a schedule that is longer than its limit says no more.
    length=4096
    case $1 in
    schedule | calendar | url) length=400 ;;
    esac
    # No limit to one allocation: a reply may announce more than there is, which must be survived.
    if (fuzz_$way "$1" "-max_total_time=$seconds" "-max_len=$length" -rss_limit_mb=2048 \
        -malloc_limit_mb=0 \
        -print_final_stats=1) > "$log" 2>&1; then
        runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        took=$(sed -n 's/^Done [0-9]* runs in \([0-9]*\) second.*/\1/p' "$log")
        echo "$1: ${took:-?} s, ${runs:-?} runs, no finding"
        # Nothing run is nothing shown.
        [ "${runs:-0}" -gt 1000 ]
    else
        tail -n 60 "$log"
        for file in "$build/fixed/$1"/found-*; do
            if [ -f "$file" ]; then
                mv "$file" "$build/crashes/$1-${file##*/found-}"
            fi
        done
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
