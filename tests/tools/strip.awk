# strip.awk: C source without its comments, one output line per input line:
#   file TAB line TAB code with the contents of strings blanked TAB code with strings
# Lines that are empty after that are left out. Tabs in the code become blanks.

FNR == 1 { in_comment = 0 }

{
    text = $0
    gsub(/\t/, " ", text)
    bare = ""
    full = ""
    quote = ""
    length_ = length(text)
    is_include = (!in_comment && text ~ /^[ ]*#[ ]*include/)
    for (i = 1; i <= length_; i++) {
        c = substr(text, i, 1)
        two = substr(text, i, 2)
        if (in_comment) {
            if (two == "*/") {
                in_comment = 0
                i++
            }
            continue
        }
        if (quote != "") {
            full = full c
            if (c == "\\") {
                i++
                full = full substr(text, i, 1)
            } else if (c == quote) {
                bare = bare c
                quote = ""
            }
            continue
        }
        if (two == "/*") {
            in_comment = 1
            i++
            bare = bare " "
            full = full " "
            continue
        }
        if ((c == "\"" && !is_include) || c == "'") {
            quote = c
        }
        bare = bare c
        full = full c
    }
    if (bare ~ /[^ ]/) {
        printf "%s\t%d\t%s\t%s\n", FILENAME, FNR, bare, full
    }
}
