#!/bin/sh
# backends.sh FOLDER_OF_PROGRAMS [quick]: bench_claim and bench_takeover on sqlite:, and on
# postgresql: and redis: with private servers, side by side in one run. "quick" is with tiny
# numbers, to see that they run. Fails if a fire costs other round trips than the protocol says.
set -eu

programs=$1
support=$(cd "$(dirname "$0")/../support" && pwd)
jobs=10000 rounds=11 kills=11 lease=2000 held='1 100 1000'
if [ "${2:-}" = quick ]; then
    jobs=20 rounds=2 kills=1 held='1 20'
fi
work=$(mktemp -d /tmp/jobsched-bench-XXXXXX)
finish()
{
    sh "$support/postgres.sh" remove "$work/pg" > /dev/null 2>&1 || true
    sh "$support/redis.sh" remove "$work/redis" > /dev/null 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM
chmod 755 "$work"

# A durable Postgres, and a Redis that writes each second: as in production.
sh "$support/postgres.sh" fresh "$work/pg" fsync=on synchronous_commit=on full_page_writes=on
sh "$support/redis.sh" fresh "$work/redis" appendonly=yes
postgresql="postgresql:///postgres?host=$work/pg&user=postgres"
redis="redis://?socket=$work/redis/redis.sock"
"$programs/bench_claim" "$jobs" "$rounds" "sqlite:$work/jobs.db" "$postgresql" "$redis" > "$work/claims"
cat "$work/claims"
# What was counted, judged: one by one a claim and a finish are a round trip (a transaction) each, and
# on a server one request each; in batches a fire costs less than one of either.
awk '
    NR > 3 {
        backends++
        server = $1 != "sqlite"
        if ($5 != 2 || $6 >= 1 || $6 <= 0 || (server && ($7 != 2 || $8 >= 1 || $8 <= 0))) {
            print "not what the protocol says: " $0
            bad = 1
        }
    }
    END { exit bad || backends != 3 }' "$work/claims"
for url in "sqlite:$work/takeover.db" "$postgresql" "$redis"; do
    # shellcheck disable=SC2086 # a list of numbers
    "$programs/bench_takeover" "$lease" "$kills" "$url" $held
done
