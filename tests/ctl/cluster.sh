#!/bin/bash
# cluster.sh [--update] JOBSCHEDCTL MEMBER URL: walks through jobschedctl as an operator would, against a
# cluster of three processes on the lock of that URL, and compares text, JSON and statuses
# with golden/cluster.walk, the same for every backend. What differs from run to run (instants,
# spans, tokens, ids, which node) is replaced by a word first.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
update=
if [ "$1" = --update ]; then
    update=1
    shift
fi
program=$1 member=$2
golden=$here/golden/cluster.walk
work=$(mktemp -d)
export LC_ALL=C TERM=dumb JOBSCHED_LOCK=$3
export JOBSCHED_NAMESPACE="walk $$ $RANDOM"

members=()
finish()
{
    exec 5>&- 6>&- 7>&- || true
    wait "${members[@]}" 2> /dev/null || true
    rm -rf "$work"
}
trap finish EXIT

# until_true COMMAND...: waits for something that comes about by itself.
until_true()
{
    local deadline=$((SECONDS + 60))
    until "$@" > "$work/until" 2>&1; do
        if [ "$SECONDS" -ge "$deadline" ] || grep -q '^member: ' "$work"/out*; then
            echo "cluster.sh: in vain: $*" >&2
            cat "$work/until" "$work"/out* >&2
            exit 1
        fi
        sleep 0.05
    done
}

plain()
{
    sed -E -e 's/[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z/TIME/g' \
        -e 's/"([a-z_]+_ms)": -?[0-9]+/"\1": 0/' -e 's/[0-9a-f]{32}/ID/g' \
        -e 's/"token": "[0-9]+"/"token": "TOKEN"/' -e 's/(token|above|generation|"generation":|last token +) ?[0-9]+/\1 TOKEN/' \
        -e 's/\(in [0-9dhms ]+\)/(in SPAN)/; s/\([0-9dhms ]+ ago\)/(SPAN ago)/' \
        -e 's/ [0-9]+[dhm] [0-9]+[hms] / SPAN /; s/ [0-9]+[dhms] / SPAN /; s/ [+-][0-9]+ms / OFFSET /' \
        -e 's/(at|NODE|"node":) "?node-[123]"?/\1 ANY/' -e 's/ node-[123] +[0-9]+ / ANY TOKEN /' \
        -e 's/ node-[123]$/ ANY/' -e 's/still (waiting|running)/still GOING/' -e 's/ +/ /g; s/ $//' -e "s/walk $$ [0-9]+/NAMESPACE/"
}

# jobschedctl ARGUMENT...: runs it and shows what it printed.
jobschedctl()
{
    local status=0
    printf '$ jobschedctl %s\n' "$*" | plain
    "$program" "$@" > "$work/stdout" 2> "$work/stderr" < /dev/null || status=$?
    plain < "$work/stdout"
    plain < "$work/stderr" | sed 's/^/! /'
    printf '= %d\n\n' "$status"
}

for number in 1 2 3; do
    mkfifo "$work/in$number"
    "$member" "node-$number" < "$work/in$number" > "$work/out$number" 2>&1 &
    members+=($!)
done
exec 5> "$work/in1" 6> "$work/in2" 7> "$work/in3"
for number in 1 2 3; do
    until_true grep -x ready "$work/out$number"
done
# shellcheck disable=SC2317 # called by until_true
all_there()
{
    [ "$("$program" nodes | grep -c ' 1\.2\.3 .* 3 *0 *0$')" -eq 3 ] &&
        [ "$("$program" jobs | grep -c idle)" -eq 3 ]
}
until_true all_there

# What a backend has to say of itself differs, and so does the status.
examine()
{
    jobschedctl doctor | grep -E '^\$|^[a-zA-Z]+ (cluster|lock)\.'
}

walk()
{
    jobschedctl nodes
    jobschedctl jobs
    jobschedctl runs
    examine
    jobschedctl show nightly
    jobschedctl trigger nightly --request first --wait
    jobschedctl trigger nightly --request first --wait --json
    jobschedctl trigger broken --request second --wait
    jobschedctl show nightly --json
    jobschedctl pause nightly
    jobschedctl pause nightly
    jobschedctl trigger nightly
    jobschedctl jobs
    jobschedctl resume nightly --json
    jobschedctl resume nightly
    jobschedctl trigger lingering --request third --wait --timeout 1s
    until_true sh -c "'$program' jobs | grep 'lingering *running'"
    jobschedctl jobs
    jobschedctl pause lingering
    jobschedctl trigger lingering --dry-run
    jobschedctl cancel lingering
    until_true sh -c "'$program' runs lingering | grep cancelled"
    jobschedctl cancel lingering
    jobschedctl runs
    jobschedctl runs lingering --json
    jobschedctl remove lingering --dry-run
    jobschedctl remove lingering --yes
    jobschedctl remove lingering --dry-run
    jobschedctl remove lingering
    jobschedctl pause lingering
    jobschedctl show lingering
    jobschedctl jobs
    jobschedctl jobs --all --json
    jobschedctl show nobody
    jobschedctl pause nobody
    jobschedctl trigger nobody --json
    jobschedctl trigger nobody --dry-run
    jobschedctl runs nobody
    exec 7>&-
    until_true sh -c "[ \$('$program' nodes | grep -c node-) -eq 2 ]"
    jobschedctl nodes
    exec 5>&- 6>&-
    until_true sh -c "'$program' nodes | grep 'no nodes'"
    jobschedctl jobs
    examine
}
walk > "$work/walk"
if [ -n "$update" ]; then
    cp "$work/walk" "$golden"
elif ! diff -u "$golden" "$work/walk"; then
    exit 1
fi
echo "$(grep -c '^\$ ' "$work/walk") commands"
