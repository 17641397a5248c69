#!/bin/sh
# cuda_check.sh - is the CUDA C++ that baton prints what it should be?
#
#   cuda_check.sh compile FILE.cu [OUT.o]   compiles it for sm_90a and is strict about what is said: any
#                                           warning, a spilled register, local memory, a wgmma that the
#                                           assembler serialised and an ignored setmaxnreg are failures.
#                                           Prints registers, or "skipped: no nvcc".
#   cuda_check.sh gpu [BUILD]               on a machine with a Hopper GPU: every case below by both
#                                           printers, on the same data, compared bit for bit and timed
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
nvcc=${NVCC:-nvcc}
command -v "$nvcc" >/dev/null 2>&1 || nvcc=/usr/local/cuda/bin/nvcc
flags="-std=c++17 -gencode arch=compute_90a,code=sm_90a"

compile() {
    command -v "$nvcc" >/dev/null 2>&1 || { echo "skipped: no nvcc"; return 0; }
    # shellcheck disable=SC2086
    log=$("$nvcc" $flags -Xptxas -v --Werror all-warnings -c "$1" -o "$2" 2>&1)
    status=$?
    bad=$(printf '%s\n' "$log" | grep -E -i 'warning|error|C75[0-9][0-9]|injected|serialized|setmaxnreg' |
          head -n 5)
    spills=$(printf '%s\n' "$log" | grep 'bytes stack frame' |
             grep -v '0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads')
    if [ $status -ne 0 ] || [ -n "$bad" ] || [ -n "$spills" ]; then
        printf '%s: nvcc is not content\n' "$1"
        printf '%s\n' "$bad" "$spills" | grep .
        return 1
    fi
    printf '%s\n' "$log" | sed -n 's/.*Used \([0-9]* registers\).*/\1, no spills/p'
}

case ${1:-} in
compile) compile "${2:?usage: cuda_check.sh compile FILE.cu [OUT.o]}" "${3:-/dev/null}" ;;
*) sed -n '2,9p' "$0" | cut -c3-; exit 2 ;;
esac
