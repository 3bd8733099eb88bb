#!/bin/bash
# store.sh JOBSCHEDCTL URL REDIS_SCRIPT: what doctor and migrate say of a store that is empty, made,
# forbidden, unfit or away, by text, ids, JSON and statuses. URL is that of a postgresql: server, or
# only "sqlite:" or "redis:", for which the store is made here. The first fault ends it.
set -euo pipefail

program=$1 url=$2 redis_script=$3
work=$(mktemp -d)
chmod 0711 "$work" # servers of ours are no root
export LC_ALL=C TERM=dumb JOBSCHED_NAMESPACE="store $$ $RANDOM"
count=0

finish()
{
    if [ -d "$work/redis" ]; then
        sh "$redis_script" remove "$work/redis"
    fi
    rm -rf "$work"
}
trap finish EXIT

# expect STATUS PATTERN ARGUMENT...: the status, and a line of the output that matches; stdout is
# left in $work/stdout.
expect()
{
    local wanted=$1 pattern=$2 status=0
    shift 2
    count=$((count + 1))
    "$program" "$@" > "$work/stdout" 2> "$work/stderr" < /dev/null || status=$?
    if [ "$status" -ne "$wanted" ] || ! grep -qE -- "$pattern" "$work/stdout" "$work/stderr"; then
        echo "store.sh: jobschedctl $*: status $status, wanted $wanted and /$pattern/ from:" >&2
        head -c 2000 "$work/stdout" "$work/stderr" >&2
        exit 1
    fi
}

# Not at all in the last output.
lacks()
{
    if grep -E -- "$1" "$work/stdout" "$work/stderr" >&2; then
        echo "store.sh: that should not be there: /$1/" >&2
        exit 1
    fi
}

empty_store()
{
    expect 6 '^ERROR +lock\.schema: ' doctor
    expect 6 '"id": "lock.schema",' doctor --json
    lacks '"id": "(sqlite|postgresql|cluster)'
    expect 3 'a scheduler makes it' jobs
    expect 3 'a scheduler makes it' pause x
    expect 3 '"code": "ENOTFOUND"' remove x --json
}

made_store()
{
    expect 0 '^the schema is there and up to date$' migrate
    expect 0 '^  "up_to_date": true$' migrate --json
    expect 0 '^no jobs$' jobs
    expect 0 '^  "jobs": \[\]$' jobs --json
    expect 0 '^no nodes$' nodes
    expect 0 '^  "nodes": \[\]$' nodes --json
    expect 0 '^no runs$' runs
    expect 3 "job 'x' is not known here" pause x
}

no_schema_to_print()
{
    expect 4 'has no schema to print' migrate --print-sql
    expect 4 '"code": "ENOTSUP"' migrate --dry-run --json
}

well()
{
    expect 0 '^0 errors, 0 warnings$' doctor --strict
    lacks '^(warning|ERROR)'
    expect 0 '^  "healthy": true,$' doctor --strict --json
    lacks '"level": "(warning|error)"'
}

try_sqlite()
{
    export JOBSCHED_LOCK=sqlite:$work/store.db
    empty_store
    no_schema_to_print
    [ ! -e "$work/store.db" ] || exit 1
    made_store
    well
    printf 'This is no database, as can be seen.' > "$work/other.db"
    expect 6 'lock\.reachable: .*not a database' doctor --lock "sqlite:$work/other.db"
}

try_postgresql()
{
    export JOBSCHED_LOCK="$url&jobsched_schema=ctl_store_$$"
    empty_store
    expect 0 '^CREATE TABLE (IF NOT EXISTS )?"ctl_store_' migrate --print-sql
    cp "$work/stdout" "$work/schema.sql"
    expect 0 '^CREATE TABLE (IF NOT EXISTS )?"ctl_store_' migrate --dry-run
    cmp "$work/schema.sql" "$work/stdout"
    expect 0 '"BEGIN;",$' migrate --print-sql --json
    expect 6 'lock\.schema' doctor # nothing of it was executed
    made_store
    well
    # What was printed is what is needed: an administrator's schema is taken as it is.
    sed "s/ctl_store_$$/ctl_printed_$$/g" "$work/schema.sql" > "$work/printed.sql"
    psql -q -v ON_ERROR_STOP=1 -d "$url" -f "$work/printed.sql" > /dev/null
    export JOBSCHED_LOCK="$url&jobsched_schema=ctl_printed_$$"
    well
    psql -q -d "$url" -c "DROP SCHEMA ctl_store_$$ CASCADE" -c "DROP SCHEMA ctl_printed_$$ CASCADE" \
        2> /dev/null
    JOBSCHED_LOCK=${url/user=postgres/user=nobody_$$}
    expect 6 '^ERROR +lock\.rights: ' doctor
    expect 4 'role "nobody_' jobs
    expect 4 '"code": "EACCESS"' pause x --json
}

try_redis()
{
    sh "$redis_script" start "$work/redis" appendonly=yes appendfsync=always
    export JOBSCHED_LOCK="redis://?socket=$work/redis/redis.sock"
    expect 0 '^no jobs$' jobs # a namespace that is empty is a store
    no_schema_to_print
    made_store
    well
    JOBSCHED_LOCK="redis://me:geheim@?socket=$work/redis/redis.sock"
    expect 6 '^ERROR +lock\.rights: ' doctor
    lacks geheim
    expect 4 'WRONGPASS' jobs
    lacks geheim
    JOBSCHED_LOCK="redis://?socket=$work/redis/redis.sock"
    redis-cli -s "$work/redis/redis.sock" REPLICAOF 127.0.0.1 1 > /dev/null
    expect 6 '^ERROR +lock\.refused: .*replica' doctor
    expect 4 replica jobs
    sh "$redis_script" stop "$work/redis"
    expect 5 '^ERROR +lock\.reachable: ' doctor
    expect 5 '^  "healthy": false,$' doctor --json
    expect 5 'no connection' jobs
    expect 5 '"code": "EUNREACHABLE"' cancel x --json
    expect 5 'no connection' migrate
}

"try_${url%%:*}"
echo "$count commands"
