#!/bin/sh
# selftest_floors.sh: the guards that count (counts.sh, coverage.sh, floors.sh) are shown a run in which
# something is missing, and must say so; and one in which nothing is.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
failed=0
count=0

# expect STATUS WHAT TEXT COMMAND...
expect()
{
    status=$1
    what=$2
    text=$3
    shift 3
    count=$((count + 1))
    came=0
    PATH=$work/bin:$PATH "$@" > "$work/said" 2>&1 || came=1
    if [ "$came" -ne "$status" ] || ! grep -qF -e "$text" "$work/said"; then
        echo "selftest: $what: status $came, and this was said:"
        cat "$work/said"
        failed=1
    fi
}

# A tree of its own, with the history that floors.sh looks at.
tree=$work/tree
tools=$tree/tests/tools
mkdir -p "$tools" "$work/bin" "$work/build/Testing/Temporary" "$work/build/src" "$tree/src"
cp "$here"/*.sh "$tools/"
printf 'lines-all 90\nbranches-all 50\nlines-engine 90\ntests 2\nfunctions 5\n' > "$tools/floors.txt"
git -C "$tree" init -q
commit()
{
    git -C "$tree" add -A
    git -C "$tree" -c user.name=selftest -c user.email=selftest@localhost commit -q -m "$1"
}
commit floors

expect 0 "floors as they were" "none has fallen" sh "$tools/floors.sh"
sed -i 's/^lines-all 90/lines-all 89/' "$tools/floors.txt"
expect 1 "a lower floor" "'lines-all' is 89; it was 90 before" sh "$tools/floors.sh"
commit lowered
expect 1 "a lower floor, committed" "'lines-all' is 89; it was 90 before" sh "$tools/floors.sh"
sed -i '/^lines-all/d' "$tools/floors.txt"
expect 1 "a floor that is gone" "'lines-all' is gone" sh "$tools/floors.sh"
printf 'lines-all 91\nbranches-all 50\nlines-engine 90\ntests 2\nfunctions 5\n' > "$tools/floors.txt"
expect 0 "a higher floor" "none has fallen" sh "$tools/floors.sh"

# What ctest would say, and its log: two tests, of three and two functions.
printf '#!/bin/sh\necho "Total Tests: %s"\n' 2 > "$work/bin/ctest"
chmod +x "$work/bin/ctest"
log=$work/build/Testing/Temporary/LastTest.log
whole()
{
    printf '1/2 Test: a\n[==========] 3 test(s) run.\n2/2 Test: b\n[==========] %s test(s) run.\n' "$1" \
        > "$log"
}
whole 2
expect 0 "a whole run" "2 tests, 5 functions" sh "$tools/counts.sh" "$work/build"
whole 1
expect 1 "a function less" "functions: 4 is less than the floor of 5" sh "$tools/counts.sh" "$work/build"
printf '1/1 Test: a\n[==========] 5 test(s) run.\n' > "$log"
expect 1 "a test less" "2 tests are known, but 1 ran" sh "$tools/counts.sh" "$work/build"
whole 2
echo '[  SKIPPED ] b' >> "$log"
expect 1 "a test that skips itself" "tests were skipped" sh "$tools/counts.sh" "$work/build"
rm "$log"
expect 1 "no run at all" "no tests have run" sh "$tools/counts.sh" "$work/build"

# What gcovr would write: lines, those that ran, percent; branches likewise.
cat > "$work/bin/gcovr" << 'END'
#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in
    --csv) printf 'filename\nsrc/engine/a.c,100,%s,0,10,6,0\n' "$(cat "$RAN")" > "$2" ;;
    --txt) : > "$2" ;;
    esac
    shift
done
END
chmod +x "$work/bin/gcovr"
export RAN="$work/ran"
echo 95 > "$RAN"
expect 0 "enough that ran" "95 of    100" sh "$tools/coverage.sh" "$work/build"
echo 90 > "$RAN"
expect 1 "too little that ran" "lines-all: 90.0 % is less than the floor of 91.0 %" \
    sh "$tools/coverage.sh" "$work/build"
echo 95 > "$RAN"
expect 0 "floors that are raised" "95.0%" sh "$tools/coverage.sh" "$work/build" --raise
expect 0 "the raised ones" "none has fallen" sh "$tools/floors.sh"
count=$((count + 1))
if ! grep -qx 'lines-engine 94.5' "$tools/floors.txt"; then
    echo "selftest: --raise wrote:"
    cat "$tools/floors.txt"
    failed=1
fi

if [ "$failed" -ne 0 ]; then
    exit 1
fi
echo "selftest: $count runs judged rightly"
