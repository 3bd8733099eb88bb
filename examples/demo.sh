#!/bin/sh
# demo.sh: three processes share one crontab and one lock; one is killed with SIGKILL while it runs a
# job, another is stopped with SIGTERM, and at the end a table shows that every occurrence was fired
# exactly once. Installs what it needs, builds, and cleans up after itself. About 25 seconds.
#
#   sh examples/demo.sh [--backend sqlite|postgres|redis] [--build FOLDER]
#
# The PostgreSQL or Redis server is a private one in a temporary folder, without a port, and is gone at
# the end; as root it runs as nobody. JOBSCHED_DEMO_SECONDS makes the window longer or shorter (at least
# 16).
#
# Exit status: 0 all was fired exactly once; 1 something was not, or the demo could not run; 2 usage.
# shellcheck disable=SC2317 # functions are also called by trap and by until_true
set -eu

seconds=${JOBSCHED_DEMO_SECONDS:-20} # length of the window in which occurrences are counted

say() {
    printf '%s  %s\n' "$(date -u +%H:%M:%S)" "$*"
}

fail() {
    printf 'demo: %s\n' "$*" >&2
    exit 1
}

usage() {
    printf 'Usage: sh examples/demo.sh [--backend sqlite|postgres|redis] [--build FOLDER]\n' >&2
    exit 2
}

now_ms() {
    date +%s%3N
}

# ---- what is asked for ---------------------------------------------------------------------------

backend=sqlite
build=
while [ $# -gt 0 ]; do
    case $1 in
    --backend)
        [ $# -ge 2 ] || usage
        backend=$2
        shift 2
        ;;
    --build)
        [ $# -ge 2 ] || usage
        build=$2
        shift 2
        ;;
    *) usage ;;
    esac
done
case $backend in
sqlite | redis) ;;
postgres | postgresql) backend=postgresql ;;
*)
    printf "demo: backend '%s' is not one of: sqlite, postgres, redis\n" "$backend" >&2
    exit 2
    ;;
esac
case $seconds in
1[6-9] | [2-9][0-9] | [1-9][0-9][0-9]) ;;
*)
    printf "demo: JOBSCHED_DEMO_SECONDS '%s' is not within 16-999\n" "$seconds" >&2
    exit 2
    ;;
esac

top=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/jobsched-demo.XXXXXX")

# What the three processes are told. They look for cut off runs three times in a lease; it is longer
# than what a takeover takes here.
server=$work/server
lease=12s
case $backend in
sqlite) lock=sqlite:$work/jobs.db ;;
postgresql) lock="postgresql:///postgres?host=$server&user=postgres" ;;
redis)
    lock="redis://?socket=$server/redis.sock"
    # Nothing but its silence tells that an owner is dead, so the lease is what a takeover takes. A
    # request may take a third of it, for machines that are busy.
    lease=4s
    JOBSCHED_REQUEST_TIMEOUT=1300ms
    export JOBSCHED_REQUEST_TIMEOUT
    ;;
esac

# Whatever happens, no process and no file is left. The commands of a killed elected-crond are ended
# by its watcher.
clean() {
    status=$?
    trap - EXIT
    for file in "$work"/*.pid; do
        if [ -f "$file" ]; then
            kill -9 "$(cat "$file")" 2>/dev/null || :
        fi
    done
    wait 2>/dev/null || :
    services_on
    stop_server
    rm -rf "$work"
    exit "$status"
}
trap clean EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# ---- install and build ---------------------------------------------------------------------------

want_module() {
    if ! command -v pkg-config >/dev/null || ! pkg-config --exists "$1"; then
        missing="$missing $2"
    fi
}

# The packages of servers would start them. Debian's own switch, unless somebody has set it already,
# turned back afterwards.
switch=/usr/sbin/policy-rc.d
switched=
root=
services_off() {
    if [ ! -e "$switch" ]; then
        switched=1
        printf '#!/bin/sh\nexit 101\n' | $root tee "$switch" >/dev/null
        $root chmod 0755 "$switch"
    fi
}
services_on() {
    [ -z "$switched" ] || $root rm -f "$switch"
    switched=
}

install_missing() {
    missing=
    command -v cc >/dev/null || missing="$missing gcc libc6-dev"
    command -v cmake >/dev/null || missing="$missing cmake"
    command -v make >/dev/null || command -v ninja >/dev/null || missing="$missing make"
    command -v pkg-config >/dev/null || missing="$missing pkg-config"
    case $backend in
    sqlite) want_module sqlite3 libsqlite3-dev ;;
    postgresql)
        want_module libpq libpq-dev
        # Debian keeps the server's programs outside the path.
        ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || missing="$missing postgresql"
        ;;
    redis)
        want_module hiredis libhiredis-dev
        command -v redis-server >/dev/null || missing="$missing redis-server"
        ;;
    esac
    [ -n "$missing" ] || return 0
    command -v apt-get >/dev/null || fail "please install:$missing"
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || fail "please install as root:$missing"
        root=sudo
    fi
    say "installing$missing"
    services_off
    # shellcheck disable=SC2086 # words are meant to be split
    if ! { $root apt-get update -q && $root env DEBIAN_FRONTEND=noninteractive \
        apt-get install -q -y --no-install-recommends $missing; } >"$work/apt.log" 2>&1; then
        tail -n 20 "$work/apt.log" >&2
        fail "apt-get could not install:$missing"
    fi
    services_on
}

build_program() {
    if [ -z "$build" ]; then
        build=$top/build-demo
        [ -w "$top" ] || build=$work/build
    fi
    # A folder that is configured already keeps its other settings.
    set --
    if [ ! -f "$build/CMakeCache.txt" ]; then
        set -- -DJOBSCHED_BUILD_TESTS=OFF -DJOBSCHED_BUILD_CTL=OFF -DJOBSCHED_BUILD_SQLITE=OFF \
            -DJOBSCHED_BUILD_POSTGRES=OFF -DJOBSCHED_BUILD_REDIS=OFF
        ! command -v ninja >/dev/null || set -- "$@" -G Ninja
    fi
    case $backend in
    sqlite) set -- "$@" -DJOBSCHED_BUILD_SQLITE=ON ;;
    postgresql) set -- "$@" -DJOBSCHED_BUILD_POSTGRES=ON ;;
    redis) set -- "$@" -DJOBSCHED_BUILD_REDIS=ON ;;
    esac
    say "building in $build"
    if ! { cmake -S "$top" -B "$build" "$@" &&
        cmake --build "$build" --parallel "$(nproc)" \
            --target elected-crond "jobsched_$backend"; } >"$work/build.log" 2>&1; then
        tail -n 40 "$work/build.log" >&2
        fail "the build failed"
    fi
    crond=$build/bin/elected-crond
}

# ---- the server ----------------------------------------------------------------------------------

# By the scripts of the tests. Started by root they are nobody, who must reach the folder.
start_server() {
    [ "$backend" = sqlite ] || chmod 0711 "$work"
    case $backend in
    postgresql)
        say "starting a private PostgreSQL server in $server"
        sh "$top/tests/support/postgres.sh" start "$server"
        ;;
    redis)
        say "starting a private Redis server in $server"
        sh "$top/tests/support/redis.sh" start "$server" appendonly=yes
        ;;
    esac
}

stop_server() {
    if [ -d "$server" ]; then
        case $backend in
        postgresql) sh "$top/tests/support/postgres.sh" remove "$server" || : ;;
        redis) sh "$top/tests/support/redis.sh" remove "$server" || : ;;
        esac
    fi
}

# ---- the cluster ---------------------------------------------------------------------------------

# An ordinary crontab. The table below computes what it asks for by itself, so it understands only
# what stands here: all fields but seconds and minutes are '*'.
write_crontab() {
    cat >"$work/crontab" <<'END'
GREETING = "hello from"

# name: heartbeat
* * * * * *    true
# name: poll
*/2 * * * * *  echo "$GREETING process $PPID"
# name: metrics
@every 3s      echo "token $JOBSCHED_TOKEN for $JOBSCHED_SCHEDULED_AT"
# name: report
@every 4s      echo "takes two seconds"; sleep 2; echo "done"
# name: minutely
* * * * *      date
END
}

start_node() {
    "$crond" --lock "$lock" --lease "$lease" --node "$1" --runs-log "$work/runs" \
        "$work/crontab" >"$work/$1.out" 2>"$work/$1.log" &
    echo $! >"$work/$1.pid"
}

# until_true SECONDS COMMAND...: polls.
until_true() {
    end=$(($(now_ms) + $1 * 1000))
    shift
    until "$@"; do
        [ "$(now_ms)" -lt "$end" ] || return 1
        sleep 0.05
    done
}

is_ready() {
    grep -q 'event=crond.ready' "$work/$1.log"
}

sleep_until() {
    left=$(($1 - $(now_ms)))
    if [ "$left" -gt 0 ]; then
        sleep "$(awk -v ms="$left" 'BEGIN { printf "%.3f", ms / 1000 }')"
    fi
}

# The node whose run of 'report' has begun after an instant and still goes on.
find_owner() {
    owner=$(awk -F '\t' -v after="$1" '
        $2 == "report" && $1 == "start" && $8 > after { node[$4] = $6 }
        $2 == "report" && $1 == "end" { delete node[$4] }
        END { for (token in node) print node[token] }' "$work/runs" 2>/dev/null)
    [ -n "$owner" ]
}

# Stops the owner half a second into its run, so that it cannot end while one looks whether it still
# goes on.
halt_owner() {
    find_owner "$1" || return 1
    victim=$owner
    sleep 0.5
    kill -STOP "$(cat "$work/$victim.pid")"
    if find_owner "$1" && [ "$owner" = "$victim" ]; then
        return 0
    fi
    kill -CONT "$(cat "$work/$victim.pid")"
    return 1
}

stop_node() {
    pid=$(cat "$work/$1.pid")
    kill -TERM "$pid"
    left=0
    wait "$pid" || left=$?
    rm "$work/$1.pid"
}

run_cluster() {
    for node in node-1 node-2 node-3; do
        start_node "$node"
    done
    for node in node-1 node-2 node-3; do
        until_true 30 is_ready "$node" || {
            cat "$work/$node.log" >&2
            fail "$node did not start"
        }
    done
    # Whole seconds, with a second to spare on both sides: all three are up before the first
    # occurrence that counts, and one is up after the last.
    from=$((($(now_ms) / 1000 + 2) * 1000))
    to=$((from + seconds * 1000))
    say "three processes run this crontab, each started with the same command:"
    sed 's/^/            /' "$work/crontab"

    sleep_until $((from + 3500))
    until_true 30 halt_owner $((from + 3500)) || fail "nobody runs 'report'"
    kill -9 "$(cat "$work/$victim.pid")"
    killed=$(now_ms)
    wait "$(cat "$work/$victim.pid")" 2>/dev/null || :
    rm "$work/$victim.pid"
    say "$victim is killed with SIGKILL while it runs 'report'"

    sleep_until $((from + seconds * 667 + 60))
    leaver='node-1'
    [ "$victim" != "$leaver" ] || leaver='node-2'
    stopping=$(now_ms)
    stop_node "$leaver"
    stopped=$(now_ms)
    leaver_left=$left
    say "$leaver is stopped with SIGTERM and ends with status $leaver_left"

    # A machine that stalls does the last of it later. What is wrong stays so.
    sleep_until $((to + 500))
    until_true 20 is_complete || :
    for node in node-1 node-2 node-3; do
        if [ -f "$work/$node.pid" ]; then
            stop_node "$node"
            last=$node
            last_left=$left
        fi
    done
    say "$last, the last one, is stopped with SIGTERM and ends with status $last_left"
}

# ---- the table -----------------------------------------------------------------------------------

# What the crontab asks for in the window, computed here and not by jobsched: job, instant.
expect() {
    awk -v from="$from" -v to="$to" '
        function fits(field, value,    parts, count, i) {
            if (field == "*") return 1
            if (field ~ /^\*\//) return value % substr(field, 3) == 0
            count = split(field, parts, ",")
            for (i = 1; i <= count; i++) if (parts[i] + 0 == value) return 1
            return 0
        }
        /^# name: / { name = substr($0, 9); next }
        /^#/ || /^$/ || /^[A-Z]/ { next }
        {
            every = 0; second = "0"; minute = "*"
            if ($1 == "@every") { every = $2; sub(/s$/, "", every); text = $1 " " $2 }
            else if ($6 ~ /^[0-9*]/) { second = $1; minute = $2; text = $1 " " $2 " * * * *" }
            else { minute = $1; text = $1 " * * * *" }
            printf "job\t%s\t%s\n", name, text
            for (t = from / 1000; t < to / 1000; t++) {
                if (every ? t % every == 0 : fits(second, t % 60) && fits(minute, int(t / 60) % 60))
                    printf "due\t%s\t%.0f\n", name, t * 1000 # %d ends at 2^31 in mawk
            }
        }' "$work/crontab"
}

# Occurrences that the logs say were skipped, as when a slow machine has not ended the run before:
# job, first and last second of the day.
list_skipped() {
    sed -n 's/^.* event=occurrence\.skipped .* job="\([^"]*\)" \(.*\)$/\1 \2/p' "$work"/node-*.log |
        awk '
            function second(text) {
                text = substr(text, index(text, "T") + 1)
                return substr(text, 1, 2) * 3600 + substr(text, 4, 2) * 60 + substr(text, 7, 2)
            }
            {
                first = last = -1
                for (i = 2; i <= NF; i++) {
                    if ($i ~ /^scheduled=/) first = last = second($i)
                    if ($i ~ /^last=/) last = second($i)
                }
                printf "skip\t%s\t%d\t%d\n", $1, first, last
            }'
}

show_table() {
    { expect && list_skipped; } >"$work/expected"
    awk -F '\t' -v from="$from" -v to="$to" '
        NR == FNR && $1 == "job" { jobs[++count] = $2; text[$2] = $3 }
        NR == FNR && $1 == "due" { due[$2, $3] = 1; expected[$2]++ }
        NR == FNR && $1 == "skip" { skips++; skip_job[skips] = $2; first[skips] = $3; last[skips] = $4 }
        NR == FNR { next }
        function was_skipped(job, ms,    i, second) {
            second = int(ms / 1000) % 86400
            for (i = 1; i <= skips; i++)
                if (skip_job[i] == job && second >= first[i] && second <= last[i]) return 1
            return 0
        }
        $1 == "start" {
            # Twice is twice, in the window or outside.
            if (++starts[$2, $3] == 2) twice[$2]++
            open[$2, $4] = 1
            if ($4 <= token[$2]) disorder++
            token[$2] = $4
            if ($3 < from || $3 >= to) next
            if (!(($2, $3) in due)) { strange++; next }
            if (starts[$2, $3] == 1) { fired[$2]++; by[$2, $6]++ }
        }
        $1 == "end" { delete open[$2, $4] }
        function row(name, schedule, a, b, c, d, e, n1, n2, n3) {
            printf "  %-10s %-14s %8s %6s %6s %5s %12s   %6s %6s %6s\n",
                name, schedule, a, b, c, d, e, n1, n2, n3
        }
        END {
            for (key in open) { split(key, part, SUBSEP); cut[part[1]]++ }
            for (key in due) if (!(key in starts)) {
                split(key, part, SUBSEP)
                if (was_skipped(part[1], part[2])) skipped++; else lost[part[1]]++
            }
            row("job", "schedule", "expected", "fired", "twice", "lost", "interrupted",
                "node-1", "node-2", "node-3")
            for (i = 1; i <= count; i++) {
                j = jobs[i]
                row(j, text[j], expected[j] + 0, fired[j] + 0, twice[j] + 0, lost[j] + 0,
                    cut[j] + 0, by[j, "node-1"] + 0, by[j, "node-2"] + 0, by[j, "node-3"] + 0)
                all_expected += expected[j]; all_fired += fired[j]; all_twice += twice[j]
                all_lost += lost[j]; all_cut += cut[j]; n1 += by[j, "node-1"]
                n2 += by[j, "node-2"]; n3 += by[j, "node-3"]
            }
            row("total", "", all_expected, all_fired, all_twice + 0, all_lost + 0, all_cut + 0,
                n1 + 0, n2 + 0, n3 + 0)
            if (skipped) printf "\n  %d skipped: the run before was not over\n", skipped
            if (strange) printf "\n  %d fired at instants that no schedule asks for\n", strange
            if (disorder) printf "\n  %d fencing tokens did not grow\n", disorder
            exit (all_twice + all_lost + strange + disorder > 0)
        }' "$work/expected" "$work/runs"
}

is_complete() {
    show_table >/dev/null && show_takeover >/dev/null
}

# The run that was cut off, when another node noticed it, and who took the job over.
show_takeover() {
    awk -F '\t' -v killed="$killed" -v victim="$victim" '
        function clock(ms,    s) {
            s = int(ms / 1000) % 86400
            return sprintf("%02d:%02d:%02d", int(s / 3600), int(s / 60) % 60, s % 60)
        }
        $2 == "report" && $1 == "start" && $6 == victim && $8 < killed { due = $3; begun = $8 }
        $2 == "report" && $1 == "start" && $8 > killed && !next_due {
            next_due = $3; taken = $8; taker = $6
        }
        END {
            if (!next_due) { print "  nobody took over"; exit 1 }
            printf "  %s was killed %.1f s into its run of the job \"report\" that was due at %s.\n",
                victim, (killed - begun) / 1000, clock(due)
            printf "  Takeover: \"report\" was due again at %s, %.1f s after the kill; ",
                clock(next_due), (next_due - killed) / 1000
            printf "%s started it\n  %d ms after it was due.\n", taker, taken - next_due
        }' "$work/runs" || return 1
    told=$(grep -h 'event=run.interrupted' "$work"/node-*.log | grep 'job="report"') || :
    noticed=$(printf '%s' "$told" | grep -c .) || :
    printf '  The run that was cut off is in the ledger as interrupted; told %s time(s)' "$noticed"
    printf '%s\n' "$told" | sed -n 's/^time=[^T]*T\([0-9:.]*\)Z.* node="\([^"]*\)".*/, by \2 at \1/p'
    printf '  %s was stopped with SIGTERM: it let its commands end and was gone after %s ms.\n' \
        "$leaver" "$((stopped - stopping))"
    [ "$noticed" -eq 1 ]
}

install_missing
build_program
start_server
write_crontab
run_cluster
verdict=0
printf '\nWhat the schedules ask for in %s seconds, and what the three processes did (times are UTC)\n\n' "$seconds"
show_table || verdict=1
printf '\n'
show_takeover || verdict=1
[ "$leaver_left" -eq 0 ] || verdict=1
[ "$last_left" -eq 0 ] || verdict=1
if [ "$verdict" -eq 0 ] && grep -q '^skip' "$work/expected"; then
    printf '\nEvery occurrence was fired exactly once or is told as skipped: 0 twice, 0 lost.\n'
elif [ "$verdict" -eq 0 ]; then
    printf '\nEvery occurrence was fired exactly once: 0 twice, 0 lost.\n'
else
    printf '\nSomething is wrong. The logs:\n' >&2
    cat "$work"/node-*.log >&2
fi
exit "$verdict"
