#!/bin/sh
# cuda_check.sh - is the CUDA C++ that baton prints what it should be?
#
#   cuda_check.sh compile FILE.cu [OUT.o]
#       compiles it for sm_90a and is strict about what is said: any warning, a spilled register,
#       local memory, a wgmma that the assembler serialised and an ignored setmaxnreg are failures.
#       Prints registers, or "skipped: no nvcc".
#   cuda_check.sh build [DIR]
#       builds a program that runs kernels by both printers on the same data; DIR
#       (build/cuda_check) gets it and the PTX
#   cuda_check.sh gpu [DIR]
#       runs it, on a machine with a Hopper GPU: outputs are compared bit for bit, and both are
#       timed in turns. The machine needs neither nvcc nor baton if DIR was built elsewhere.
# BUILD is the folder of baton's own build (default build).
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
    bad=$(printf '%s\n' "$log" |
          grep -E -i 'warning|error|C75[0-9][0-9]|injected|serialized|setmaxnreg' | head -n 5)
    spills=$(printf '%s\n' "$log" | grep 'bytes stack frame' |
             grep -v '0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads')
    if [ $status -ne 0 ] || [ -n "$bad" ] || [ -n "$spills" ]; then
        printf '%s: nvcc is not content\n' "$1"
        printf '%s\n' "$bad" "$spills" | grep .
        return 1
    fi
    printf '%s\n' "$log" | sed -n 's/.*Used \([0-9]* registers\).*/\1, no spills/p'
}

# NAME FILE [OPTIONS]: by both printers; C++ names that begin with the function's get NAME instead.
both() {
    name=$1 file=$2
    shift 2
    "$BUILD/baton" build "$file" "$@" -o "$dir/$name.ptx" || return 1
    "$BUILD/baton" build "$file" "$@" --emit=cuda -o "$dir/$name.cu" || return 1
}

object() { # NAME [FLAGS]
    name=$1
    shift
    # shellcheck disable=SC2086
    "$nvcc" $flags --Werror all-warnings "$@" -c "$dir/$name.cu" -o "$dir/$name.o"
}

# The C++ names of tile function FUNCTION as those of NAME: several files have one of that name.
rename() { # NAME FUNCTION
    for suffix in "" _plain _launch _message; do printf -- '-D%s=%s ' "$2$suffix" "$1$suffix"; done
}

build() {
    BUILD=${BUILD:-$here/build}
    mkdir -p "$dir"
    both gemm "$here/kernels/gemm/gemm.co" &&
        both gemm_f16 "$here/kernels/gemm/gemm.co" -D ELEM=f16 &&
        both add "$here/kernels/learn/add.co" && both copy "$here/kernels/learn/copy.co" &&
        both rowsum "$here/kernels/learn/rowsum.co" || return 1
    objects="" have=""
    for name in gemm add copy rowsum; do
        object $name || return 1
        objects="$objects $dir/$name.o"
    done
    # shellcheck disable=SC2046
    object gemm_f16 $(rename gemm_f16 gemm) || return 1
    for name in v1 v2 v3 v4; do
        file=$here/kernels/attention/$name.co
        [ -f "$file" ] || continue
        function=$(sed -n 's/^__co__ void \([A-Za-z0-9_]*\).*/\1/p' "$file" | head -n 1)
        # shellcheck disable=SC2046
        both $name "$file" && object $name $(rename $name "$function") || return 1
        objects="$objects $dir/$name.o" have="$have -DHAVE_$name"
    done
    # shellcheck disable=SC2086
    "$nvcc" $flags -O2 $have -o "$dir/cuda_check" "$here/tools/cuda_check.cu" $objects \
        "$dir/gemm_f16.o" "$BUILD/libbaton.a" -ldl -lpthread -lm || return 1
    # Every pure operation of the thread IR as CUDA C++, against the emulator.
    ${CC:-gcc} -std=gnu11 -O2 -o "$dir/ops" "$here/tests/gpu/ops.c" "$BUILD/libbaton.a" -ldl \
        -lpthread -lm &&
        OPS_CUDA="$dir/ops.cu" "$dir/ops" &&
        "$nvcc" $flags --Werror all-warnings -cubin "$dir/ops.cu" -o "$dir/ops.cubin"
}

dir=${2:-$here/build/cuda_check}
case ${1:-} in
compile) compile "${2:?usage: cuda_check.sh compile FILE.cu [OUT.o]}" "${3:-/dev/null}" ;;
build) build ;;
gpu)
    [ -x "$dir/cuda_check" ] || build || exit 1
    OPS_IMAGE="$dir/ops.cubin" "$dir/ops" || exit 1
    "$dir/cuda_check" "$dir"
    ;;
*) sed -n '2,14p' "$0" | cut -c3-; exit 2 ;;
esac
