#!/bin/sh
# Checks the pages that describe the languages: docs/tile-ir.md and docs/thread-ir.md have exactly
# one table row per row of their ops.h, and each example that docs/language.md quotes "From [FILE]"
# stands in that file line by line. Prints what differs; exit status 1 then.
#
#     sh tools/opdoc.sh [FOLDER]      FOLDER has docs/, src/ and tests/; default: this checkout
cd "${1:-$(dirname "$0")/..}" || exit 2
status=0

# same PAGE HEADER: names of X(ID, "name", ..) against first cells | `name` |.
same() {
    rows=$(sed -n 's/^ *X([A-Z0-9_]*, *"\([a-z0-9_.]*\)",.*/\1/p' "$2" | sort)
    cells=$(sed -n 's/^| `\([a-z0-9_.]*\)` |.*/\1/p' "$1" | sort)
    test -n "$rows" || { echo "$2: no rows found"; status=1; return; }
    for name in $rows; do
        count=$(echo "$cells" | grep -cFx "$name")
        wanted=$(echo "$rows" | grep -cFx "$name")
        test "$count" = "$wanted" && continue
        echo "$1: \`$name\` of $2 has $count rows, expected $wanted"
        status=1
    done
    for name in $cells; do
        echo "$rows" | grep -qFx "$name" && continue
        echo "$1: \`$name\` is no operation of $2"
        status=1
    done
}
same docs/tile-ir.md src/tile/ops.h
same docs/thread-ir.md src/thread/ops.h

# Quotes: the block behind "From [FILE](..)", as one piece of the file.
awk '
    function judge(    whole, line) {
        whole = "\n"
        while ((getline line < file) > 0) whole = whole line "\n"
        close(file)
        quotes++
        if (index(whole, "\n" block)) return
        print "docs/language.md:" start ": this is not a part of " file
        bad = 1
    }
    inside && /^```/ { judge(); inside = 0; file = ""; next }
    inside { block = block $0 "\n"; next }
    /^From \[/ { file = $0; sub(/^From \[/, "", file); sub(/\].*/, "", file); next }
    file != "" && /^```/ { inside = 1; block = ""; start = NR + 1 }
    END {
        if (!quotes) { print "docs/language.md: no examples found"; bad = 1 }
        exit bad
    }
' docs/language.md || status=1
exit $status
