#!/bin/sh
# assemble.sh FILE.ptx [OUT.cubin] - runs ptxas for sm_90a and is strict about what it says: any
# warning, a wgmma that the assembler had to serialise or pad with waits (C75xx), an ignored
# setmaxnreg and every spilled register is a failure. Prints the register count of each kernel, or
# "skipped: no ptxas".
set -u
ptx=${1:?usage: assemble.sh FILE.ptx [OUT.cubin]}
out=${2:-/dev/null}
ptxas=${PTXAS:-ptxas}
command -v "$ptxas" >/dev/null 2>&1 || { echo "skipped: no ptxas"; exit 0; }
log=$("$ptxas" -arch=sm_90a -v -o "$out" "$ptx" 2>&1)
status=$?
bad=$(printf '%s\n' "$log" | grep -E -i 'warning|error|C75[0-9][0-9]|injected|serialized|setmaxnreg' |
      head -n 5)
spills=$(printf '%s\n' "$log" | grep -E 'bytes spill' | grep -v '0 bytes spill stores, 0 bytes spill loads')
if [ $status -ne 0 ] || [ -n "$bad" ] || [ -n "$spills" ]; then
    printf '%s: ptxas is not content\n' "$ptx"
    printf '%s\n' "$bad" "$spills" | grep .
    exit 1
fi
printf '%s\n' "$log" | sed -n 's/.*Used \([0-9]* registers\).*/\1, no spills/p'
