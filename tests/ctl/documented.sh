#!/bin/bash
# documented.sh JOBSCHEDCTL MANUAL COMPLETION: every verb and option that the program knows is in the
# man page and is completed, and no other option is, the synopsis offers each verb just the options that it takes, and the man
# page has every code of a warning and the id of every check, and no id that there is none of.
set -euo pipefail

program=$1 manual=$2 completion=$3
root=$(cd "$(dirname "$0")/../.." && pwd)
sources=$root/src/ctl
failed=0
count=0

missing()
{
    echo "$1"
    failed=1
}

# complete WORD...: what is offered for the last word.
complete_words()
{
    COMP_WORDS=("$@")
    COMP_CWORD=$(($# - 1))
    COMPREPLY=()
    _jobschedctl
    printf '%s\n' "${COMPREPLY[@]:-}"
}
# shellcheck source=/dev/null
. "$completion"

# synopsis VERB: the letters that the synopsis offers it, sorted, in one word.
synopsis()
{
    awk -v verb="$1" '
        /^\.Sh/ { inside = $2 == "SYNOPSIS" }
        !inside { next }
        /^\.Nm/ { mine = 0 }
        /^\.Cm/ { for (i = 2; i <= NF; i++) { mine = mine || $i == verb } }
        mine && /^\.Op Fl/ { print $3 }
        mine && /^\.Op Ar lock options/ { print "lLN" }' "$manual" |
        fold -w 1 | LC_ALL=C sort | tr -d '\n'
}

verbs=$("$program" help | sed -n 's/^  \([a-z]*\) .*/\1/p')
[ -n "$verbs" ] || missing "no verbs"
for verb in $verbs; do
    count=$((count + 1))
    grep -q "^\\.\\(It\\|Nm\\) .*Cm $verb\\b" "$manual" || missing "verb '$verb' is not in $manual"
    complete_words jobschedctl "${verb:0:3}" | grep -x "$verb" > /dev/null ||
        missing "verb '$verb' is not completed"
    letters=$("$program" help "$verb" | sed -n 's/^  -\([^h]\), --.*/\1/p' | LC_ALL=C sort | tr -d '\n')
    [ "$(synopsis "$verb")" = "$letters" ] ||
        missing "the synopsis offers '$verb' the options '$(synopsis "$verb")', and it takes '$letters'"
    for option in $("$program" help "$verb" | sed -n 's/^  -., --\([a-z-]*\) .*/\1/p'); do
        count=$((count + 1))
        grep -q -- "^\\.It Fl . , -$option\\b" "$manual" || missing "option '--$option' is not in $manual"
        if [ "$verb" != help ]; then
            complete_words jobschedctl "$verb" "--" | grep -x -- "--$option" > /dev/null ||
                missing "option '--$option' of '$verb' is not completed"
        fi
    done
done
for verb in $verbs; do
    for option in $(complete_words jobschedctl "$verb" "--"); do
        "$program" help "$verb" | grep -e "^  -., $option\( \|\$\)" > /dev/null ||
            missing "option '$option' of '$verb' is completed, and it does not take it"
    done
done
codes=$(sed -n -e 's/.*ctl_trap_add([^"]*"\([a-z-]*\)".*/\1/p' \
    -e 's/.*code = "\([a-z-]*\)".*/\1/p' "$sources"/*.c | sort -u)
[ -n "$codes" ] || missing "no codes of warnings"
for code in $codes; do
    count=$((count + 1))
    grep -q "^\\.It Li $code\$" "$manual" || missing "warning '$code' is not in $manual"
done
pattern='(lock|cluster|sqlite|postgresql|redis|single)\.[a-z-]+'
known=$(grep -rhoE "\"$pattern\"" --include='*.c' "$root/src/engine" "$root/src/backends" "$sources" |
    tr -d '"' | sort -u)
listed=$(sed -nE "s/^\\.It Li ($pattern)\$/\\1/p" "$manual" | sort -u)
[ -n "$known" ] || missing "no ids of checks"
for id in $(printf '%s\n' "$known" "$listed" | sort | uniq -u); do
    missing "check '$id' is either only in $manual, or not there"
done
count=$((count + $(printf '%s\n' "$known" | wc -l)))
echo "$count names looked up"
exit "$failed"
