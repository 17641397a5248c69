#!/bin/sh
# run.sh - builds the program of this package with a C compiler and runs it on a GPU: each kernel is
# checked against a reference in double precision, then the kernels are timed in turns.
# ./run.sh --help lists the options.
set -eu
from=$(pwd)
cd -- "$(dirname -- "$0")"

usage() {
    cat <<'END'
./run.sh [options]

  --build-only        build, and run nothing
  --skip-build        run what was built before
  --cuda              build generated/*.cu with nvcc and run these instead of the PTX
  --regenerate        compile kernels/*.co again first; needs baton
  --baton PATH        the baton for that; default: the one on PATH
  --help              print this

All other options go to the program:
END
    if [ -x build/bench ]; then
        build/bench --options
    else
        echo "  (./run.sh --build-only builds it; then they are listed here)"
    fi
    cat <<'END'

CC is the C compiler (default cc; nvcc does as well), CFLAGS its options (-O2). NVCC, or CUDA_HOME,
says where nvcc is.
The exit status: 0 right, 1 a wrong result, 2 bad usage, 3 no GPU or its trouble.
END
}

fail() {
    echo "run.sh: $1" >&2
    exit 2
}

# The C sources need nothing but a C library: the driver is opened when the program runs.
build() {
    mkdir -p build
    case $CC in
    *nvcc) standard='-Xcompiler -std=gnu11' ;;
    *) standard=-std=gnu11 ;;
    esac
    # Both may be several words.
    # shellcheck disable=SC2086
    $CC ${CFLAGS--O2} $standard -o build/bench src/*.c src/*/*.c rt/*.c ops/*.c -ldl -lm -lpthread
}

# Machine code from CUDA C++. What nvcc says about registers and memory stays in a log.
build_cuda() {
    nvcc=${NVCC:-${CUDA_HOME:+$CUDA_HOME/bin/}nvcc}
    command -v "$nvcc" >/dev/null 2>&1 || nvcc=/usr/local/cuda/bin/nvcc
    command -v "$nvcc" >/dev/null 2>&1 || fail "--cuda needs nvcc, on PATH or in CUDA_HOME/bin"
    mkdir -p build
    for file in generated/*.cu; do
        name=$(basename "$file" .cu)
        echo "nvcc $file"
        "$nvcc" -std=c++17 -O3 -gencode arch=compute_90a,code=sm_90a -Xptxas -v -cubin \
            -o "build/$name.cubin" "$file" > "build/$name-nvcc.log" 2>&1 || {
            cat "build/$name-nvcc.log" >&2
            exit 2
        }
    done
}

# This makes the whole package again, from its own sources with the options that VERSIONS names.
# This script is one of its files; a shell that runs it keeps the old one open.
regenerate() {
    case $baton in
    /*) ;;
    */*) baton=$from/$baton ;; # from where the script was called
    esac
    command -v "$baton" >/dev/null 2>&1 || fail "--regenerate needs baton; --baton says where it is"
    "$baton" package @ITEMS@ -o . --force --no-archive || exit $?
}

main() {
    CC=${CC:-cc} build=yes run=yes cuda= regenerate= baton=baton
    left=$#
    # Words that are not for this script go behind the others.
    while [ "$left" -gt 0 ]; do
        word=$1
        shift
        left=$((left - 1))
        case $word in
        --build-only) run= ;;
        --skip-build) build= ;;
        --cuda) cuda=yes ;;
        --regenerate) regenerate=yes ;;
        --baton=*) baton=${word#--baton=} ;;
        --baton)
            [ "$left" -gt 0 ] || fail "--baton needs a value: --baton PATH"
            baton=$1
            shift
            left=$((left - 1))
            ;;
        --help | -h)
            usage
            exit 0
            ;;
        *) set -- "$@" "$word" ;;
        esac
    done
    [ -z "$regenerate" ] || regenerate
    [ -z "$build" ] || build
    [ -z "$build" ] || [ -z "$cuda" ] || build_cuda
    [ -n "$run" ] || return 0
    [ -x build/bench ] || fail "there is no build/bench; without --skip-build it is built"
    exec build/bench ${cuda:+--cuda} "$@"
}

main "$@"
exit
