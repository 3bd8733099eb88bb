#!/bin/bash
# cluster.sh [--update] JOBSCHEDCTL MEMBER URL: walks through jobschedctl as an operator would, against a
# cluster of three processes on the lock of that URL, and of three that do not agree, and compares
# text, JSON and statuses with golden/cluster.walk, the same for every backend. What differs from run to run (instants,
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

# Text that acts on a terminal, if it gets there: U+202E turns the direction of writing.
odd=$(printf "gr\303\274n \342\200\256'\\\\x")

members=()
inputs=()
finish()
{
    for input in "${inputs[@]}"; do
        exec {input}>&-
    done
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
        -e 's/ node-[123]$/ ANY/' -e "s/(x) +[0-9]+ +gr/\1 TOKEN gr/" -e 's/still (waiting|running)/still GOING/' -e 's/ +/ /g; s/ $//' -e "s/walk $$ [0-9]+/NAMESPACE/"
}

# jobschedctl ARGUMENT...: runs it and shows what it printed.
jobschedctl()
{
    local status=0
    printf '$ jobschedctl %s\n' "${*//"$odd"/ODD}" | plain
    "$program" "$@" > "$work/stdout" 2> "$work/stderr" < /dev/null || status=$?
    plain < "$work/stdout"
    plain < "$work/stderr" | sed 's/^/! /'
    printf '= %d\n\n' "$status"
}

# enter NUMBER NAME [KIND]: starts a member; its input is closed to make it leave.
enter()
{
    local input
    mkfifo "$work/in$1"
    "$member" "${@:2}" < "$work/in$1" > "$work/out$1" 2>&1 &
    members+=($!)
    exec {input}> "$work/in$1"
    inputs[$1]=$input
}

leave()
{
    local input
    for number in "$@"; do
        input=${inputs[number]}
        exec {input}>&-
        unset "inputs[number]"
    done
}

for number in 1 2 3; do
    enter "$number" "node-$number"
done
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
    jobschedctl doctor --json | sed -E 's/"(healthy|errors|warnings)": [a-z0-9]+/"\1": ANY/' | awk '
        /^ *\{$/ { held = $0; next }
        held != "" { dropped = /"id"/ && !/"id": "(cluster|lock)\./; if (!dropped) { print held } held = "" }
        /^= / { next }
        !dropped { print }
        /^ *\},?$/ { dropped = 0 }'
}

# Where there is a warning of the cluster that cannot be.
examine_strictly()
{
    examine
    jobschedctl doctor --strict | grep -E '^\$|^='
}

# shellcheck disable=SC2317 # called by until_true
all_differ()
{
    "$program" nodes > "$work/differ"
    grep -qE '^node-1 .* 3 +0 +0$' "$work/differ" && grep -qE '^node-2 .* 1 +0 +1$' "$work/differ" &&
        grep -qE '^gr.* 1 +0 +0$' "$work/differ"
}

# Three who do not agree, one of them odd in name and deed: what is shown of that is text, whatever
# the characters of the terminal are.
differ()
{
    enter 4 node-1
    until_true grep -x ready "$work/out4"
    enter 5 node-2 older
    enter 6 "$odd" odd
    until_true grep -x ready "$work/out5"
    until_true grep -x ready "$work/out6"
    until_true all_differ
    examine_strictly
    for characters in C C.UTF-8; do
        LC_ALL=$characters jobschedctl nodes
    done
    jobschedctl nodes --json
    for characters in C C.UTF-8; do
        export LC_ALL=$characters
        jobschedctl trigger "$odd" --request "$odd $characters" --wait
        jobschedctl jobs
        jobschedctl show "$odd"
        jobschedctl pause "$odd" --dry-run
        jobschedctl remove "$odd$odd"
    done
    export LC_ALL=C
    jobschedctl show "$odd" --json
    leave 4 5 6
    until_true sh -c "'$program' nodes | grep 'no nodes'"
    examine_strictly
}

walk()
{
    jobschedctl nodes
    jobschedctl nodes --json
    jobschedctl jobs
    jobschedctl runs
    examine
    jobschedctl show nightly
    jobschedctl trigger nightly --request first --wait
    jobschedctl trigger nightly --request first --wait --json
    jobschedctl trigger broken --request second --wait
    jobschedctl trigger broken --request second --json
    for verb in pause resume trigger cancel remove; do
        jobschedctl "$verb" nightly --dry-run
    done
    jobschedctl pause nightly --dry-run --json
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
    jobschedctl show lingering --json
    jobschedctl pause lingering
    jobschedctl pause lingering --json
    jobschedctl trigger lingering --dry-run
    jobschedctl cancel lingering --dry-run --json
    jobschedctl cancel lingering
    until_true sh -c "'$program' runs lingering | grep cancelled"
    jobschedctl cancel lingering
    jobschedctl cancel lingering --json
    jobschedctl runs
    jobschedctl runs lingering --json
    jobschedctl remove lingering --dry-run
    jobschedctl remove lingering --yes
    jobschedctl remove lingering --dry-run
    jobschedctl remove lingering
    jobschedctl remove lingering --json
    jobschedctl pause lingering
    jobschedctl show lingering
    jobschedctl jobs
    jobschedctl jobs --all --json
    jobschedctl show nobody
    jobschedctl pause nobody
    jobschedctl trigger nobody --json
    jobschedctl trigger nobody --dry-run
    jobschedctl runs nobody
    leave 3
    until_true sh -c "[ \$('$program' nodes | grep -c node-) -eq 2 ]"
    jobschedctl nodes
    leave 1 2
    until_true sh -c "'$program' nodes | grep 'no nodes'"
    jobschedctl jobs
    examine_strictly
    differ
}
walk > "$work/walk"
if [ -n "$update" ]; then
    cp "$work/walk" "$golden"
elif ! diff -u "$golden" "$work/walk"; then
    exit 1
fi
echo "$(grep -c '^\$ ' "$work/walk") commands"
