#!/bin/sh
# run.sh: a cluster of real processes under attack, on a private server, and the judgement.
#   sh tests/campaign/run.sh --backend sqlite|postgresql|redis [--minutes M] [--seed N]
#                            [--build-dir FOLDER]
# Several backends, with commas between them, are attacked beside each other. 10 minutes unless
# given. Builds what it needs in FOLDER (build-campaign in the checkout). Status 0 only if no promise
# was broken; the seed that it prints makes the same attacks again, as far as time allows.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
build=$root/build-campaign
backend=
minutes=10
seed=

usage()
{
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

while [ $# -gt 0 ]; do
    case $1 in
    --backend | --minutes | --seed | --build-dir) [ $# -ge 2 ] || usage ;;
    *) usage ;;
    esac
    case $1 in
    --backend) backend=$2 ;;
    --minutes) minutes=$2 ;;
    --seed) seed=$2 ;;
    --build-dir) build=$2 ;;
    esac
    shift 2
done
[ -n "$backend" ] || usage
backend=$(echo "$backend" | sed 's/\<postgres\>/postgresql/g')

if [ ! -x "$build/bin/campaign" ]; then
    cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DJOBSCHED_ASSERTIONS=ON \
        -DJOBSCHED_BUILD_SQLITE=ON -DJOBSCHED_BUILD_POSTGRES=ON -DJOBSCHED_BUILD_REDIS=ON \
        > "$build.log" 2>&1 || { cat "$build.log" >&2; exit 1; }
fi
cmake --build "$build" --parallel 2 --target campaign races >> "$build.log" 2>&1 ||
    { cat "$build.log" >&2; exit 1; }
exec "$build/bin/campaign" --backend "$backend" --minutes "$minutes" ${seed:+--seed "$seed"}
