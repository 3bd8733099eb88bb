#!/bin/sh
# headers.sh INCLUDE_FOLDER CC CXX: every public header compiles alone, and twice, as strict C99 and
# C++11 and as newer ones, without a warning; and no public struct has padding at its end, since a
# later field would fit into it and struct_size could not tell the two layouts apart.
set -eu

include=$1
cc=$2
cxx=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
failed=0
count=0

# compile COMPILER STANDARD LANGUAGE HEADER FLAG...
compile()
{
    compiler=$1
    standard=$2
    language=$3
    header=$4
    shift 4
    printf '#include <%s>\n#include <%s>\nint main(void);\nint main(void)\n{\n    return 0;\n}\n' \
        "$header" "$header" > "$work/alone.$language"
    if ! "$compiler" "-std=$standard" -pedantic-errors -Wall -Wextra -Wshadow -Wconversion \
        -Wundef -Werror "$@" -I "$include" -fsyntax-only "$work/alone.$language"; then
        echo "'$header' does not compile alone with $compiler -std=$standard"
        failed=1
    fi
    count=$((count + 1))
}

(cd "$include" && find . -name '*.h' -print) | sed 's|^\./||' | LC_ALL=C sort > "$work/headers"
while read -r header; do
    for standard in c99 c11 c17; do
        compile "$cc" "$standard" c "$header" -Wstrict-prototypes
    done
    for standard in c++11 c++17 c++20; do
        compile "$cxx" "$standard" cpp "$header"
    done
    # clang lays a struct out only where its size is asked for.
    {
        printf '#include <%s>\n' "$header"
        sed -n 's/^\(typedef \)\{0,1\}struct \([a-z_]*\) {$/char size_\2[sizeof(struct \2)];/p' \
            "$include/$header"
    } > "$work/padded.c"
    "$cc" -std=c99 -Wpadded -I "$include" -fsyntax-only "$work/padded.c" 2> "$work/padding"
    # gcc, then clang; both warn of padding inside a struct in other words.
    if grep -E 'padding struct size to alignment|padding size of .* to alignment' \
        "$work/padding"; then
        echo "'$header' has a struct with padding at its end: add a reserved field"
        failed=1
    fi
done < "$work/headers"
if [ "$count" -eq 0 ]; then
    echo "no headers below '$include'"
    failed=1
fi
if [ "$failed" -ne 0 ]; then
    exit 1
fi
echo "headers: $count compilations, no warning"
