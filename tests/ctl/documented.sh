#!/bin/bash
# documented.sh JOBSCHEDCTL MANUAL COMPLETION: every verb and option that the program knows is in the
# man page and is completed, and every code of a warning is in the man page.
set -euo pipefail

program=$1 manual=$2 completion=$3
sources=$(cd "$(dirname "$0")/../../src/ctl" && pwd)
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

verbs=$("$program" help | sed -n 's/^  \([a-z]*\) .*/\1/p')
[ -n "$verbs" ] || missing "no verbs"
for verb in $verbs; do
    count=$((count + 1))
    grep -q "^\\.\\(It\\|Nm\\) .*Cm $verb\\b" "$manual" || missing "verb '$verb' is not in $manual"
    complete_words jobschedctl "${verb:0:3}" | grep -x "$verb" > /dev/null ||
        missing "verb '$verb' is not completed"
    for option in $("$program" help "$verb" | sed -n 's/^  -., --\([a-z-]*\) .*/\1/p'); do
        count=$((count + 1))
        grep -q -- "^\\.It Fl . , -$option\\b" "$manual" || missing "option '--$option' is not in $manual"
        if [ "$verb" != help ]; then
            complete_words jobschedctl "$verb" "--" | grep -x -- "--$option" > /dev/null ||
                missing "option '--$option' of '$verb' is not completed"
        fi
    done
done
codes=$(sed -n -e 's/.*ctl_trap_add([^"]*"\([a-z-]*\)".*/\1/p' \
    -e 's/.*code = "\([a-z-]*\)".*/\1/p' "$sources"/*.c | sort -u)
[ -n "$codes" ] || missing "no codes of warnings"
for code in $codes; do
    count=$((count + 1))
    grep -q "^\\.It Li $code\$" "$manual" || missing "warning '$code' is not in $manual"
done
echo "$count names looked up"
exit "$failed"
