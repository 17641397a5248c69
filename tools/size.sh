#!/bin/sh
# size.sh - lines per folder, and the caps that keep the project readable: files up to 1,200 lines,
# functions up to 150, lines up to 100 columns (160 at most, for tables), and a budget for the whole. Fails beyond a cap.
# Tables of measured numbers are data and are named in DATA.
# The budget: compiler, emulator, verifier and runtime took 79,000 lines of the 84,000 that they had; `baton bench`,
# `baton package` and `baton trace` got 8,000 more.
set -eu
cd "$(dirname "$0")/.."
BUDGET=94000
DATA="approx_table.h"

files=$(find src rt include ops package -name '*.[ch]' | sort)
bad=0
for f in $files; do
    case " $DATA " in *" $(basename "$f") "*) continue ;; esac
    lines=$(wc -l < "$f")
    if [ "$lines" -gt 1200 ]; then
        echo "$f: $lines lines; the cap is 1200"
        bad=1
    fi
done
# A function begins at a line "{" and ends at a line "}", both in the first column.
long=$(awk 'FNR == 1 { start = 0 }
    /^\{/ { start = FNR }
    /^\}/ { if (start && FNR - start > 150) print FILENAME ":" start ": a function of " FNR - start " lines; the cap is 150"
            start = 0 }' $files)
if [ -n "$long" ]; then
    echo "$long"
    bad=1
fi
wide=$(awk '{ gsub(/\t/, "    ") } length($0) > 160 { print FILENAME ":" FNR ": " length($0) " columns; the cap is 160" }' $files)
over=$(cat $files | awk '{ gsub(/\t/, "    ") } length($0) > 100' | wc -l)
if [ -n "$wide" ]; then
    echo "$wide" | head -20
    bad=1
fi
for d in src/* rt include ops package; do
    n=$(find "$d" -name '*.[ch]' -exec cat {} + | wc -l)
    [ "$n" -gt 0 ] && printf '%7d  %s\n' "$n" "$d"
done
printf '%7d  bench, in Python\n' "$(cat bench/*.py | wc -l)"
total=$(cat $files | wc -l)
comments=$(cat $files | grep -c '//' || true)
printf '%7d  in all; %d%% of the lines have a comment, %d are wider than 100 columns; the budget is %d\n' \
    "$total" $((comments * 100 / total)) "$over" $BUDGET
if [ "$total" -gt "$BUDGET" ]; then
    echo "over the budget"
    bad=1
fi
exit $bad
