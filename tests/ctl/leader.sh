#!/bin/sh
# leader.sh JOBSCHEDCTL MEMBER: what the library keeps for itself is no job of the user's. A cluster in
# leader mode lists its jobs without the reserved one, which is shown by its name and with --all.
set -eu

program=$1 member=$2
work=$(mktemp -d)
JOBSCHED_LOCK=sqlite:$work/jobs.db JOBSCHED_LEADER=yes
export JOBSCHED_LOCK JOBSCHED_LEADER LC_ALL=C TERM=dumb
mkfifo "$work/input"
"$member" node-1 < "$work/input" > "$work/output" 2>&1 &
pid=$!
exec 3> "$work/input" # as long as it is open the member goes on
finish()
{
    exec 3>&-
    wait "$pid" || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

fail()
{
    echo "leader.sh: $*" >&2
    cat "$work"/out* >&2
    exit 1
}

deadline=$(($(date +%s) + 60))
until "$program" show jobsched:leader > "$work/out" 2>&1 && grep -q ' node-1' "$work/out"; do
    [ "$(date +%s)" -lt "$deadline" ] || fail "nobody leads"
    sleep 0.05
done

"$program" jobs > "$work/out"
grep -q '^nightly ' "$work/out" || fail "the jobs are not listed"
! grep -q 'jobsched:' "$work/out" || fail "a reserved job is listed"
"$program" jobs --json > "$work/out"
! grep -q 'jobsched:' "$work/out" || fail "a reserved job is listed as JSON"
"$program" jobs --all > "$work/out"
[ "$(grep -c '^jobsched:leader .* node-1$' "$work/out")" = 1 ] || fail "--all does not list it once"
"$program" jobs --all --json > "$work/out"
[ "$(grep -c '"job": "jobsched:leader"' "$work/out")" = 1 ] || fail "--all --json does not"
