#!/bin/sh
# postgres.sh: private PostgreSQL servers for tests, each in a folder of its own, reachable through
# a unix socket in that folder only.
#   postgres.sh start DIR [SETTING=VALUE]...   makes the cluster if needed and starts the server
#   postgres.sh fresh DIR [SETTING=VALUE]...   the same, after removing what is there
#   postgres.sh stop DIR [fast|immediate]      stops it
#   postgres.sh restart DIR                    crashes it and starts it again
#   postgres.sh standby DIR PRIMARY            makes DIR a standby of the server in PRIMARY
#   postgres.sh promote DIR
#   postgres.sh remove DIR                     stops it and removes the folder
# The URL is postgresql:///postgres?host=DIR&user=postgres. PostgreSQL refuses to run as root, so
# then it runs as nobody.
set -eu

usage()
{
    sed -n '2,13s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

[ $# -ge 2 ] || usage
command=$1
dir=$2
shift 2

bin=
for folder in /usr/lib/postgresql/*/bin; do
    if [ -x "$folder/initdb" ]; then
        bin=$folder # the last, which is the newest
    fi
done
if [ -z "$bin" ]; then
    echo "postgres.sh: no PostgreSQL server is installed (apt-get install postgresql)" >&2
    exit 1
fi

as_server()
{
    if [ "$(id -u)" -eq 0 ]; then
        setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"
    else
        "$@"
    fi
}

own()
{
    if [ "$(id -u)" -eq 0 ]; then
        chown nobody:nogroup "$1"
    fi
    chmod 0755 "$1"
}

# Durable as a real one: synchronous_commit and fsync stay on.
make_cluster()
{
    mkdir -p "$dir"
    own "$dir"
    as_server "$bin/initdb" --pgdata="$dir/data" --username=postgres --auth=trust --encoding=UTF8 \
        --locale=C --no-sync --no-instructions > "$dir/initdb.log" 2>&1 || {
        cat "$dir/initdb.log" >&2
        exit 1
    }
    configure
}

configure()
{
    {
        echo "listen_addresses = ''"
        echo "unix_socket_directories = '$dir'"
        echo "logging_collector = off"
        echo "shared_buffers = 32MB"
        echo "wal_level = replica"
    } | as_server sh -c "cat >> '$dir/data/postgresql.conf'"
}

start()
{
    as_server "$bin/pg_ctl" start --pgdata="$dir/data" --log="$dir/server.log" --wait --silent \
        > /dev/null || {
        tail -n 20 "$dir/server.log" >&2
        exit 1
    }
}

stop()
{
    if [ -f "$dir/data/postmaster.pid" ]; then
        as_server "$bin/pg_ctl" stop --pgdata="$dir/data" --mode="$1" --wait --silent || true
    fi
}

remove()
{
    if [ -d "$dir/data" ]; then
        stop immediate
    fi
    rm -rf "$dir"
}

# The server must be able to reach the folder it works in.
cd /

case $command in
start | fresh)
    if [ "$command" = fresh ]; then
        remove
    fi
    if [ ! -d "$dir/data" ]; then
        make_cluster
    fi
    for setting in "$@"; do
        echo "${setting%%=*} = '${setting#*=}'" | as_server sh -c "cat >> '$dir/data/postgresql.conf'"
    done
    start
    ;;
stop)
    stop "${1:-fast}"
    ;;
restart)
    stop immediate
    start
    ;;
standby)
    [ $# -ge 1 ] || usage
    mkdir -p "$dir"
    own "$dir"
    as_server "$bin/pg_basebackup" --host="$1" --username=postgres --pgdata="$dir/data" \
        --wal-method=stream --checkpoint=fast --no-sync --write-recovery-conf
    configure
    start
    ;;
promote)
    as_server "$bin/pg_ctl" promote --pgdata="$dir/data" --wait --silent
    ;;
remove)
    remove
    ;;
*)
    usage
    ;;
esac
