#!/bin/sh
# readme.sh [FILE]: does what the README says, in a clean copy of the tree, with a HOME of its own.
# All "sh" blocks run in order in one shell, as a reader would type them; the first command that
# fails ends it. In the file, on the line before a block:
#   <!-- file: NAME -->          the block, of whatever language, is saved under that name
#   <!-- not tested: REASON -->  the block is left out (a server that never ends, for example)
#   <!-- output: TEXT -->        after the sh block that follows, its output must hold TEXT
# The demos' window is as short as it may be.
# "sh tests/run.sh" would run this test again, and it is what runs it: only its help is asked for.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
readme=${1:-$root/README.md}
readme=$(cd "$(dirname "$readme")" && pwd)/$(basename "$readme")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
copy=$work/jobsched

mkdir "$copy" "$work/home"
if git -C "$root" rev-parse --show-toplevel > /dev/null 2>&1; then
    # What is tracked, as it is now, without what lies around.
    # shellcheck disable=SC2016
    (cd "$root" && git ls-files -z | xargs -0 sh -c '
        for file do
            if [ -e "$file" ]; then printf "%s\0" "$file"; fi
        done' sh | tar -c --null -T - -f -) | tar -x -f - -C "$copy"
else
    (cd "$root" && tar -c --exclude='./build*' -f - .) | tar -x -f - -C "$copy"
fi

awk -v copy="$copy" -v script="$work/script" '
    function flush_marks() {
        save_as = ""
        leave_out = 0
        wanted = ""
    }
    /^<!-- file: .* -->$/ { save_as = $3; next }
    /^<!-- not tested: .* -->$/ { leave_out = 1; next }
    /^<!-- output: .* -->$/ {
        wanted = $0
        sub(/^<!-- output: /, "", wanted)
        sub(/ -->$/, "", wanted)
        next
    }
    !inside && /^```/ {
        inside = 1
        language = substr($0, 4)
        target = save_as
        runs = (language == "sh" && !leave_out && target == "")
        if (runs) {
            blocks++
            printf "say %d\n{\n", NR > script
        }
        next
    }
    inside && /^```$/ {
        if (runs) {
            print "} > \"$OUTPUT\" 2>&1" > script
            if (wanted != "") {
                gsub(/\047/, "\047\\\047\047", wanted)
                printf "expect \047%s\047\n", wanted > script
            }
        }
        if (target != "") {
            close(copy "/" target)
        }
        inside = 0
        flush_marks()
        next
    }
    inside && target != "" { print > (copy "/" target) }
    inside && runs {
        sub(/sh tests\/run\.sh$/, "sh tests/run.sh --help")
        print > script
    }
    !inside && NF > 0 { flush_marks() }
    END {
        if (blocks == 0) {
            print "no sh block in the file" > "/dev/stderr"
            exit 1
        }
    }' "$readme"

cat > "$work/run" << 'END'
set -eu
say()
{
    line=$1
    echo "readme: block at line $line" >&3
}
expect()
{
    if ! grep -qF -e "$1" "$OUTPUT"; then
        echo "readme: the block at line $line does not print '$1'" >&3
        exit 1
    fi
}
END
cat "$work/script" >> "$work/run"

cd "$copy"
if ! HOME=$work/home OUTPUT=$work/output CI=true CMAKE_BUILD_PARALLEL_LEVEL=2 \
    JOBSCHED_DEMO_SECONDS=16 sh "$work/run" 3>&1 < /dev/null; then
    cat "$work/output"
    echo "readme: a command of $(basename "$readme") failed"
    exit 1
fi
echo "readme: all blocks ran"
