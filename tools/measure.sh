#!/bin/sh
# measure.sh - everything that docs/measurements.md states, on a machine with a Hopper GPU:
#   1. compile times of every kernel             5. attention against cuDNN, burst and sustained, joules
#   2. GPU and emulator: the same bits           6. attention: every element against fp64
#   3. matrix products against cuBLAS            7. both printers: the same bits, the same speed
#   4. first launch, assembled and from cache    8. compute-sanitizer
#
#     measure.sh [NUMBERS]       only these parts, as in "measure.sh 568"
#
# 3, 5, 6 and 7 need PyTorch, 7 also nvcc. Files go to build/measure, tables to $OUT when it is set. Fails
# when anything is wrong, never when it is slow.
set -u
cd "$(dirname "$0")/.." || exit 1
WORK=build/measure
mkdir -p "$WORK"
status=0
parts=${1:-12345678}
OUT=${OUT:-$PWD/$WORK}
export OUT
wanted() { case $parts in *$1*) say "$2" ;; *) return 1 ;; esac; }
torch() { python3 -c 'import torch' 2> /dev/null || { echo "PyTorch is not installed here; skipped"; return 1; }; }
say() { printf '\n==== %s\n' "$*"; }
fail() { echo "FAILED: $*"; status=1; }

make -j"$(nproc)" > "$WORK/make.log" 2>&1 || { tail -20 "$WORK/make.log"; exit 1; }
export CUDA_CACHE_PATH="$PWD/$WORK/cache" # the driver's folder of assembled code
rm -rf "$CUDA_CACHE_PATH"
mkdir "$CUDA_CACHE_PATH"

compile_times() {
    for k in kernels/*/*.co; do
        for _ in $(seq 20); do build/baton build "$k" -o /dev/null --time 2>&1 | awk '/in all/ { print $1 }'; done |
            sort -n | awk -v k="$k" '{ t[NR] = $1 } END { printf "%10.3f ms (max %.3f)  %s\n", t[int((NR + 1) / 2)], t[NR], k }'
    done
}

compare() { # FILE OUTPUT SIZES...
    file=$1 output=$2
    shift 2
    for d in emu cuda:0; do
        build/baton run "$file" "$@" --device=$d --repeat=20 --out "$output=$WORK/$d.npy" > "$WORK/$d.txt" 2>&1 ||
            { cat "$WORK/$d.txt"; fail "$file $* on $d"; return; }
    done
    grep -h -E 'worst error|TFLOPS|GB/s' "$WORK/cuda:0.txt"
    if cmp -s "$WORK/emu.npy" "$WORK/cuda:0.npy"; then
        echo "    equal bit for bit: $file $*"
    else
        fail "$file $*: $(cmp -l "$WORK/emu.npy" "$WORK/cuda:0.npy" | wc -l) bytes differ"
    fi
}
same_bits() {
    compare kernels/learn/copy.co dst
    compare kernels/learn/copy.co dst M=65 N=63
    compare kernels/learn/add.co c
    compare kernels/learn/rowsum.co y
    compare kernels/learn/rowsum.co y M=65 N=129
    for k in kernels/gemm/*.co; do
        compare "$k" c
        compare "$k" c M=3 N=5 K=7
        compare "$k" c M=512 N=512 K=512
    done
    compare kernels/gemm/gemm.co c -D ELEM=f16
    compare kernels/gemm/persistent.co c -D ELEM=f16
    compare kernels/gemm/persistent.co c -D FP8
    for k in kernels/attention/*.co; do
        compare "$k" o
        compare "$k" o B=2 H=2 S=257
        compare "$k" o B=1 H=1 S=1
        compare "$k" o B=1 H=2 S=640
    done
}

# With an empty cache of the driver, then with what that process left in it, twice.
first_launch() {
    CUDA_CACHE_PATH="$PWD/$WORK/first_cache"
    rm -rf "$CUDA_CACHE_PATH"
    mkdir "$CUDA_CACHE_PATH"
    for n in 1 2 3; do
        build/baton run kernels/attention/v1.co --device=cuda:0 --once --time > "$WORK/first.txt" 2>&1 ||
            { cat "$WORK/first.txt"; fail "first launch"; }
        awk -v n=$n '{ print "    " $0 }
            / ms  (driver|context)$/ { start += $1; next }
            / ms  (in all|assembled and loaded|launch prepared|first launch)$/ { own += $1 }
            END { printf "process %d: driver and context %.1f ms; from .co to the launched kernel beyond them %.1f ms\n", n, start, own }' \
            "$WORK/first.txt"
    done
}

wanted 1 "1. compile times, milliseconds: median of 20 processes" && compile_times
wanted 2 "2. GPU and emulator, the same bits" && same_bits
wanted 3 "3. matrix products against cuBLAS" && torch &&
    { python3 tools/bench_gemm.py --protocol || fail "bench_gemm"; }
wanted 4 "4. first launch" && first_launch
wanted 5 "5. attention against cuDNN" && torch &&
    { python3 tools/bench_attention.py --protocol --peers \
        --kernel "$(ls kernels/attention/*.co | tr '\n' ',')" || fail "bench_attention"; }
wanted 6 "6. attention, every element" && torch && { python3 tools/verify_attention.py || fail "verify_attention"; }
wanted 7 "7. both printers" && torch && { sh tools/cuda_check.sh gpu || fail "cuda_check"; }
wanted 8 "8. compute-sanitizer" && { python3 tools/sanitize.py || fail "sanitize"; }
exit $status
