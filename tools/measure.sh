#!/bin/sh
# measure.sh - everything that docs/measurements.md states, on a machine with a Hopper GPU:
#   1. compile times of every kernel             4. first launch, assembled and from the cache
#   2. each kernel on GPU and emulator: right, and the same bits where they must be the same
#   3. attention at the sizes of the table       5. attention against cuDNN (needs PyTorch)
# Files go to build/measure, the tables of 5 to $OUT when it is set. Fails when anything is wrong, never when it is slow.
set -u
cd "$(dirname "$0")/.." || exit 1
WORK=build/measure
mkdir -p "$WORK"
status=0
say() { printf '\n==== %s\n' "$*"; }
fail() { echo "FAILED: $*"; status=1; }

make -j"$(nproc)" > "$WORK/make.log" 2>&1 || { tail -20 "$WORK/make.log"; exit 1; }
export CUDA_CACHE_PATH="$PWD/$WORK/cache" # the driver's folder of assembled code
rm -rf "$CUDA_CACHE_PATH"
mkdir "$CUDA_CACHE_PATH"

say "1. compile times, milliseconds: median of 20 processes"
for k in kernels/*/*.co; do
    for _ in $(seq 20); do build/baton build "$k" -o /dev/null --time 2>&1 | awk '/in all/ { print $1 }'; done |
        sort -n | awk -v k="$k" '{ t[NR] = $1 } END { printf "%10.3f ms (max %.3f)  %s\n", t[int((NR + 1) / 2)], t[NR], k }'
done

say "2. GPU and emulator, the same bits"
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
compare kernels/learn/copy.co dst
compare kernels/learn/copy.co dst M=65 N=63
compare kernels/learn/add.co c
compare kernels/learn/rowsum.co y
compare kernels/learn/rowsum.co y M=65 N=129
compare kernels/gemm/gemm.co c
compare kernels/gemm/gemm.co c -D ELEM=f16
compare kernels/gemm/gemm.co c M=3 N=5 K=7
compare kernels/gemm/gemm.co c M=512 N=512 K=512
compare kernels/attention/v1.co o
compare kernels/attention/v1.co o B=2 H=2 S=257
compare kernels/attention/v1.co o B=1 H=1 S=1
compare kernels/attention/v2.co o B=1 H=2 S=640
compare kernels/attention/v4.co o B=1 H=2 S=640

say "3. larger sizes, checked against fp64"
for s in 4096 8192 16384; do
    build/baton run kernels/attention/v1.co B=4 H=32 S=$s --device=cuda:0 || fail "attention S=$s"
done
for n in 4096 8192; do
    build/baton run kernels/gemm/gemm.co M=$n N=$n K=$n --device=cuda:0 || fail "gemm $n"
done

say "4. first launch: with an empty cache of the driver, then with what that process left in it, twice"
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

say "5. attention against cuDNN"
if python3 -c 'import torch' 2> /dev/null; then
    OUT=${OUT:-$WORK} python3 tools/bench_attention.py --protocol --peers \
        --kernel "$(ls kernels/attention/*.co | tr '\n' ',')" || fail "bench"
else
    echo "PyTorch is not installed here; skipped"
fi
exit $status
