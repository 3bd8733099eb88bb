#!/bin/sh
# redis.sh: private Redis servers for tests, each in a folder of its own, reachable through a unix
# socket in that folder, and through a free port of the loopback device where one is asked for.
#   redis.sh start DIR [SETTING=VALUE]...   starts the server; for example appendonly=yes, port=0
#   redis.sh fresh DIR [SETTING=VALUE]...   the same, after removing what is there
#   redis.sh sentinel DIR [SETTING=VALUE]...
#                                           starts a sentinel instead; for example port=26400 and
#                                           "sentinel=monitor main 127.0.0.1 6400 1"
#   redis.sh stop DIR                       ends it in good order
#   redis.sh kill DIR                       ends it by kill -9
#   redis.sh remove DIR                     kills it and removes the folder
# The URL is redis://?socket=DIR/redis.sock. Without settings it keeps nothing on disk. A server that
# root starts runs as nobody.
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

if ! command -v redis-server > /dev/null; then
    echo "redis.sh: no Redis server is installed (apt-get install redis-server)" >&2
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

# All that is in the folder: a server writes its settings, too, and may have been another user's.
own()
{
    if [ "$(id -u)" -eq 0 ]; then
        chown -R nobody:nogroup "$dir"
        if ! as_server test -x "$dir"; then
            echo "redis.sh: nobody cannot reach '$dir'; chmod a+x the folders above it" >&2
            exit 1
        fi
    fi
}

answers()
{
    redis-cli -s "$dir/redis.sock" ping 2> /dev/null | grep -Eq 'PONG|NOAUTH|LOADING|MASTERDOWN'
}

# Waits for a condition, at most a minute and more: the machine may be busy.
await()
{
    tries=0
    until "$@"; do
        tries=$((tries + 1))
        if [ $tries -gt 3000 ]; then
            echo "redis.sh: waited in vain for: $*" >&2
            cat "$dir/server.log" >&2
            exit 1
        fi
        sleep 0.02
    done
}

# A dead server may stay a zombie until whoever is process 1 looks. As long as one of its threads has not
# ended the sockets are open.
is_gone()
{
    ! kill -0 "$pid" 2> /dev/null ||
        [ "$(grep -cE '^(State:.Z|Threads:.1$)' "/proc/$pid/status" 2> /dev/null)" = 2 ]
}

end_by()
{
    if [ -f "$dir/pid" ]; then
        pid=$(cat "$dir/pid")
        if kill "-$1" "$pid" 2> /dev/null; then
            await is_gone
        fi
        rm -f "$dir/pid" "$dir/redis.sock"
    fi
}

case $command in
start | fresh | sentinel)
    mode=
    if [ "$command" = sentinel ]; then
        mode=--sentinel
    fi
    if [ "$command" = fresh ]; then
        end_by KILL
        rm -rf "$dir"
    fi
    mkdir -p "$dir"
    {
        echo "port 0"
        echo "bind 127.0.0.1"
        echo "unixsocket $dir/redis.sock"
        echo "unixsocketperm 700"
        echo "dir $dir"
        echo "pidfile $dir/pid"
        echo "logfile $dir/server.log"
        echo "daemonize yes"
        [ -n "$mode" ] || echo "save \"\""
        for setting in "$@"; do
            echo "${setting%%=*} ${setting#*=}"
        done
    } > "$dir/redis.conf"
    own
    as_server redis-server "$dir/redis.conf" ${mode:+"$mode"} > "$dir/start.log" 2>&1 || {
        cat "$dir/start.log" >&2
        exit 1
    }
    await answers
    ;;
stop)
    end_by TERM
    ;;
kill)
    end_by KILL
    ;;
remove)
    end_by KILL
    rm -rf "$dir"
    ;;
*)
    usage
    ;;
esac
