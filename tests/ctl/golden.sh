#!/bin/sh
# golden.sh [--update] JOBSCHEDCTL [NAME...]: runs the command lines in golden/NAME.sh and compares
# what they print, on both streams, and their statuses with golden/NAME.txt. Instants are fixed, zone
# data is that of tests/data, and neither the terminal nor the locale nor TZ has a say.
# --update writes golden/NAME.txt anew; read the difference before committing it.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
update=
if [ "${1:-}" = --update ]; then
    update=1
    shift
fi
program=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
shift
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
cd "$here/golden"
if [ $# -eq 0 ]; then
    set -- *.sh
fi
export TZDIR="$here/../data/zoneinfo-slim" TZ=Asia/Kolkata LC_ALL=C TERM=xterm
unset NO_COLOR COLUMNS || true

# jobschedctl ARGUMENT...: what the case files call.
# shellcheck disable=SC2317
jobschedctl()
{
    status=0
    printf '$ jobschedctl'
    for word in "$@"; do
        case $word in
        *[!A-Za-z0-9_./:+=-]* | '') printf " '%s'" "$word" | tr '\001-\037\177-\377' '?' ;;
        *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$program" "$@" > "$work/stdout" 2> "$work/stderr" || status=$?
    cat "$work/stdout"
    sed 's/^/! /' "$work/stderr"
    printf '= %d\n\n' "$status"
}

failed=0
for file in "$@"; do
    name=$(basename "$file" .sh)
    # shellcheck source=/dev/null
    . "./$name.sh" > "$work/$name.txt"
    if [ -n "$update" ]; then
        cp "$work/$name.txt" "$name.txt"
    elif ! diff -u "$name.txt" "$work/$name.txt"; then
        failed=1
    fi
    echo "$name: $(grep -c '^\$ ' "$work/$name.txt") commands"
done
exit "$failed"
