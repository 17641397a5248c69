#!/bin/sh
# embed.sh FILE... - prints an assembler file that holds these files and the table of them,
# package_sources (src/package/package.h): name, first byte, number of bytes. Names are as given,
# relative to the current folder, in the order given.
set -eu
cat <<'HEAD'
    .section .note.GNU-stack, "", %progbits
    .section .rodata
HEAD
n=0
for file in "$@"; do
    printf 'name%d: .asciz "%s"\nfrom%d: .incbin "%s"\nend%d:\n' $n "$file" $n "$file" $n
    n=$((n + 1))
done
cat <<'TABLE'
    .section .data.rel.ro, "aw", %progbits
    .balign 8
    .globl package_sources
package_sources:
TABLE
i=0
while [ $i -lt $n ]; do
    printf '    .8byte name%d, from%d, end%d - from%d\n' $i $i $i $i
    i=$((i + 1))
done
printf '    .globl package_source_count\n    .balign 4\npackage_source_count: .4byte %d\n' $n
