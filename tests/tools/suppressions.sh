#!/bin/sh
# suppressions.sh [ROOT]: every place that silences a tool says why. Prints each that does not, and
# fails if there is one.
#
# The reason stands on the line itself, after the marker, or in a comment that ends directly above
# it; in a list of suppressions (*.supp) in a comment directly above the entry or a block of entries;
# for a check that .clang-tidy leaves out in the comment on top, with a word of its name.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cd "${1:-$here/../..}"
found=$(mktemp)
trap 'rm -f "$found"' EXIT INT TERM

# Files whose subject the markers are.
not_meant='^\./tests/tools/(suppressions|selftest)\.sh$'

find . -name .git -prune -o -name 'build*' -prune -o -type f \
    \( -name '*.[ch]' -o -name '*.cpp' -o -name '*.sh' -o -name '*.awk' -o -name '*.cmake' \
    -o -name '*.in' -o -name CMakeLists.txt -o -path './.ci/*' \) -print |
    grep -vE "$not_meant" | LC_ALL=C sort > "$found"
if [ ! -s "$found" ]; then
    echo "no sources below '$PWD'"
    exit 1
fi
status=0
# Names of files hold no blanks here; one that did would be missed loudly.
# shellcheck disable=SC2046
awk '
# Letters that are left once the marker, its operands and comment signs are gone.
function words(text) {
    gsub(/[^A-Za-z ]/, " ", text)
    gsub(/ +/, " ", text)
    return length(text) > 8
}
function is_comment(text) {
    return text ~ /^[ \t]*(#|\/\*|\*|\/\/)/ || text ~ /\*\/[ \t]*$/
}
function is_marker(text) {
    return text ~ /NOLINT|shellcheck disable=|(GCOV|GCOVR|LCOV)_EXCL|no_sanitize|diagnostic ignored|cppcheck-suppress|fmt: off|clang-format off|IWYU pragma/
}
FNR == 1 { above = "" }
is_marker($0) && $0 !~ /NOLINTEND|_EXCL_STOP|clang-format on/ {
    rest = $0
    sub(/^.*(NOLINT[A-Z]*(\([^)]*\))?|shellcheck disable=[A-Z0-9,]*|(GCOV|GCOVR|LCOV)_EXCL_[A-Z_]*|no_sanitize(\([^)]*\)|_[a-z]*)*|diagnostic ignored "[^"]*"|cppcheck-suppress [a-zA-Z]*|clang-format off)/, "", rest)
    count++
    if (!words(rest) && !(is_comment(above) && !is_marker(above) && words(above))) {
        printf "%s:%d: no reason for this suppression: %s\n", FILENAME, FNR, $0
        bad = 1
    }
}
{ above = $0 }
END { printf "%d suppressions in sources\n", count; exit bad }
' $(cat "$found") || status=1

find . -name .git -prune -o -name 'build*' -prune -o -type f -name '*.supp' -print > "$found"
while read -r list; do
    # An entry is a block in braces (valgrind) or a line (sanitizers).
    awk '
    /^[ \t]*$/ { reason = 0; next }
    /^[ \t]*#/ { reason = 1; next }
    /^\{/ { inside = 1; count++
        if (!reason) { printf "%s:%d: no reason for this entry\n", FILENAME, FNR; bad = 1 } }
    inside { if ($0 ~ /^\}/) { inside = 0 } next }
    { count++; if (!reason) { printf "%s:%d: no reason for this entry\n", FILENAME, FNR; bad = 1 } }
    END { printf "%d entries in %s\n", count, FILENAME; exit bad }
    ' "$list" || status=1
done < "$found"

if [ -f .clang-tidy ]; then
    awk '
    /^#/ { gsub(/-/, " "); reasons = reasons " " tolower($0); next }
    /^ +-[a-z]+-/ {
        name = $1
        gsub(/^-|,$/, "", name)
        if (name == "*" ) { next }
        count++
        short = tolower(name)
        sub(/^[a-z]+-([a-z]+\.)?/, "", short)
        sub(/^.*\./, "", short) # of analyzer checks the last part
        gsub(/-/, " ", short)
        known = index(reasons, short) > 0
        parts = split(short, part, " ")
        for (i = 1; i <= parts; i++) {
            known = known || (length(part[i]) >= 6 && index(reasons, part[i]) > 0)
        }
        if (!known) {
            printf ".clang-tidy: no reason why '\''%s'\'' is left out\n", name
            bad = 1
        }
    }
    END { printf "%d checks left out in .clang-tidy\n", count; exit bad }
    ' .clang-tidy || status=1
fi
exit "$status"
