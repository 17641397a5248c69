#!/bin/sh
# cuda_check.sh - is the CUDA C++ that baton prints what it should be?
#
#   cuda_check.sh compile FILE.cu [OUT.o]
#       compiles it for sm_90a and is strict about what is said: any warning, a spilled register,
#       local memory, a wgmma that the assembler serialised and an ignored setmaxnreg are failures.
#       Prints registers, or "skipped: no nvcc".
#   cuda_check.sh build [DIR]
#       builds what the next one runs: single operations, and kernels by both printers. DIR is
#       build/cuda_check
#   cuda_check.sh gpu [DIR [OPTIONS]]
#       on a machine with a Hopper GPU and PyTorch: each operation gives the emulator's bits; each
#       kernel gives the same bits by both printers (tools/compare_printers.py), and both are timed
#       in turns. The machine needs no nvcc if DIR was built elsewhere. OPTIONS go to that script.
# BUILD is the folder of baton's own build (default build).
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
nvcc=${NVCC:-nvcc}
command -v "$nvcc" >/dev/null 2>&1 || nvcc=/usr/local/cuda/bin/nvcc
flags="-std=c++17 -gencode arch=compute_90a,code=sm_90a -Xcompiler -Wall"

compile() {
    command -v "$nvcc" >/dev/null 2>&1 || { echo "skipped: no nvcc"; return 0; }
    # shellcheck disable=SC2086
    log=$("$nvcc" $flags -Xptxas -v --Werror all-warnings -c "$1" -o "$2" 2>&1)
    status=$?
    bad=$(printf '%s\n' "$log" |
          grep -E -i 'warning|error|C75[0-9][0-9]|injected|serialized|setmaxnreg' | head -n 5)
    spills=$(printf '%s\n' "$log" | grep 'bytes stack frame' |
             grep -v '0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads')
    # printf takes its values from local memory; spills stay a failure.
    grep -q ' printf(' "$1" &&
        spills=$(printf '%s\n' "$spills" | grep -v ', 0 bytes spill stores, 0 bytes spill loads')
    if [ $status -ne 0 ] || [ -n "$bad" ] || [ -n "$spills" ]; then
        printf '%s: nvcc is not content\n' "$1"
        printf '%s\n' "$bad" "$spills" | grep .
        return 1
    fi
    printf '%s\n' "$log" | sed -n 's/.*Used \([0-9]* registers\).*/\1, no spills/p'
}

# Every pure operation of the thread IR as CUDA C++, a program that compares it with the emulator;
# and all kernels by both printers.
build() {
    mkdir -p "$dir"
    ${CC:-gcc} -std=gnu11 -O2 -o "$dir/ops" "$here/tests/gpu/ops.c" "$BUILD/libbaton.a" -ldl \
        -lpthread -lm &&
        OPS_CUDA="$dir/ops.cu" "$dir/ops" &&
        "$nvcc" $flags --Werror all-warnings -cubin "$dir/ops.cu" -o "$dir/ops.cubin" || return 1
    python3 "$here/tools/compare_printers.py" --build "$BUILD" --dir "$dir" --build-only
}

BUILD=${BUILD:-$here/build}
dir=${2:-$here/build/cuda_check}
case ${1:-} in
compile) compile "${2:?usage: cuda_check.sh compile FILE.cu [OUT.o]}" "${3:-/dev/null}" ;;
build) build ;;
gpu)
    [ -e "$dir/ops.cubin" ] || build || exit 1
    OPS_IMAGE="$dir/ops.cubin" "$dir/ops" || exit 1
    [ $# -gt 2 ] && shift 2 || shift $#
    python3 "$here/tools/compare_printers.py" --build "$BUILD" --dir "$dir" "$@"
    ;;
*) sed -n '2,16p' "$0" | cut -c3-; exit 2 ;;
esac
