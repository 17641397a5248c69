#!/bin/sh
# measure.sh - everything that docs/measurements.md states, on a machine with a Hopper GPU, as results files.
#
#     measure.sh [PART ...]      only these parts, as in "measure.sh attention pipelines"; --help lists them
#
# PART.json goes to $OUT (build/measure); added to docs/results it is what tools/measurements.py makes the page of.
# Fails when anything is wrong, never when it is slow. A part whose needs are missing is skipped, and said to be.
set -u
cd "$(dirname "$0")/.." || exit 1
RESULTS=${OUT:-build/measure}
export OUT="$RESULTS/texts" # what the scripts print, and their samples
WORK=build/measure/work
status=0

# Name, needs (- nothing, torch, nvcc, sanitizer), what it says.
PARTS='attention torch kernels and peers in turns, burst and sustained; PEERS=cudnn,fa2,triton names others
gemm torch matrix products beside cuBLAS
correct torch the state correction under each handoff policy
correct_bench - the same by baton bench, at the size of the FlashQLA page
verify_attention torch every element of attention against fp64, and the bits of the emulator
pipelines - kernels that [[pipeline]] made beside the ones by hand
printers nvcc PTX and CUDA C++ of each kernel: the same bits, the same speed
same_bits - GPU and emulator: the same bits
clusters - the same for clusters with multicast
run - attention v1 by baton run
first_launch - assembled, and from the cache of the driver
cpu - the compiler, the emulator and the verifier, on the CPU
stress - tests/race under random delays
sanitize sanitizer kernels under compute-sanitizer'

say() { printf '\n==== %s\n' "$*"; }
fail() { echo "FAILED: $*"; status=1; }
# record PART TITLE COLUMN...: a results file of tab-separated rows on standard input.
record() {
    part=$1
    shift
    python3 tools/record.py "$RESULTS/$part.json" "$@" --command "sh tools/measure.sh $part" || fail "$part"
}
has() {
    case $1 in
    -) ;;
    torch) python3 -c 'import torch' 2> /dev/null ;;
    nvcc) python3 -c 'import torch' 2> /dev/null && { command -v nvcc || test -x /usr/local/cuda/bin/nvcc; } > /dev/null ;;
    sanitizer) { command -v compute-sanitizer || test -x /usr/local/cuda/bin/compute-sanitizer; } > /dev/null ;;
    esac
}

compare() { # FILE OUTPUT SIZES...
    file=$1 output=$2
    shift 2
    cases=$((cases + 1))
    for d in emu cuda:0; do
        build/baton run "$file" "$@" --device=$d --repeat=20 --out "$output=$WORK/$d.npy" > "$WORK/$d.txt" 2>&1 ||
            { cat "$WORK/$d.txt"; differ=$((differ + 1)); fail "$file $* on $d"; return; }
    done
    if cmp -s "$WORK/emu.npy" "$WORK/cuda:0.npy"; then
        echo "    equal bit for bit: $file $*"
    else
        differ=$((differ + 1))
        fail "$file $*: $(cmp -l "$WORK/emu.npy" "$WORK/cuda:0.npy" | wc -l) bytes differ"
    fi
}
same_bits() {
    cases=0 differ=0
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
    printf 'kernels at their default size and at odd ones\t%d\t%d\n' $cases $differ |
        record same_bits "GPU and emulator, the same bits" what cases differ
}

clusters() {
    sh tests/gpu/clusters.sh > "$WORK/clusters.txt" || fail "clusters"
    cat "$WORK/clusters.txt"
    awk '/ bits / { n++; bad += !/ bits same / } END { printf "clusters with multicast\t%d\t%d\n", n, bad }' "$WORK/clusters.txt" |
        record clusters "clusters on GPU and emulator" what cases differ
}

# One line of the record: kernel, milliseconds, TFLOPS, worst error.
run() {
    build/baton run kernels/attention/v1.co B=4 H=32 S=8192 --device=cuda:0 --repeat=200 > "$WORK/run.txt" 2>&1 || fail "run"
    cat "$WORK/run.txt"
    awk '/^  time / { ms = $2 } /^  speed / { tf = $2 } / worst error / { e = $3 }
        END { printf "attention/v1\t%s\t%s\t%s\n", ms, tf, e }' "$WORK/run.txt" |
        record run "attention v1 by baton run" kernel median:ms tflops:TFLOPS worst
}

# With an empty cache of the driver, then with what that process left in it, twice.
first_launch() {
    rm -rf "$WORK/first_cache"
    mkdir "$WORK/first_cache"
    for n in "first, the driver's cache empty" second third; do
        CUDA_CACHE_PATH="$PWD/$WORK/first_cache" build/baton run kernels/attention/v1.co --device=cuda:0 --once --time \
            > "$WORK/first.txt" 2>&1 || { cat "$WORK/first.txt"; fail "first launch"; }
        awk -v n="$n" '/ ms  (driver|context)$/ { start += $1; next }
            / ms  (in all|assembled and loaded|launch prepared|first launch)$/ { own += $1 }
            END { printf "%s\t%.1f\t%.1f\n", n, start, own }' "$WORK/first.txt"
    done > "$WORK/first.tsv"
    cat "$WORK/first.tsv"
    record first_launch "first launch of attention v1" process context:ms beyond:ms < "$WORK/first.tsv"
}

script() { # PART SCRIPT OPTIONS...: one that writes its record itself
    part=$1
    shift
    "$@" --record "$RESULTS/$part.json" || fail "$part"
}
bench() { # PART WORDS...: baton bench, whose folder stays beside its results file
    part=$1
    shift
    build/baton bench "$@" -o "$RESULTS/bench/$part" || fail "$part"
    [ -e "$RESULTS/bench/$part/results.json" ] && cp "$RESULTS/bench/$part/results.json" "$RESULTS/$part.json"
}
attention() {
    bench attention attention --workload=bench/workloads/prefill \
        --backends="v1,v2,v4,v3,${PEERS:-cudnn,fa2,triton,triton_ws}"
}
gemm() { bench gemm gemm --sizes=4096,8192 --backends=gemm,persistent,sequential,pipelined,cublas; }
correct_bench() {
    words="--backends=sequential,proxy,delay --load=0.5"
    bench correct_bench correct $words
    bench correct_bench_vk correct $words -D VK=1
    bench correct_bench_reverse correct $words -D REVERSE=1 -D TF32=1
    bench correct_bench_vk_reverse correct $words -D REVERSE=1 -D VK=1 -D TF32=1
}
cpu() {
    build/baton bench --cpu -o "$RESULTS/bench/cpu" || fail cpu
    cp "$RESULTS/bench/cpu/cpu.json" "$RESULTS"
}
correct() { script correct python3 tools/bench_correct.py; }
verify_attention() { script verify_attention python3 tools/verify_attention.py; }
pipelines() { bench pipelines attention --regimes=sustained --backends=v2,v1_pipelined --yardstick=v2; }
printers() { script printers sh tools/cuda_check.sh gpu build/cuda_check; }
stress() { script stress python3 tools/stress_corpus.py --launches 200; }
sanitize() { script sanitize python3 tools/sanitize.py; }

names=$(printf '%s\n' "$PARTS" | cut -d' ' -f1)
case ${1:-} in -*) sed -n '2,7p' "$0" | cut -c3-; printf '%s\n' "$PARTS"; exit 0 ;; esac
for part in "$@"; do
    printf '%s\n' "$names" | grep -qx -e "$part" || { echo "there is no part $part; there are" $names; exit 2; }
done
mkdir -p "$WORK" "$OUT"
make -j"$(nproc)" > "$WORK/make.log" 2>&1 || { tail -20 "$WORK/make.log"; exit 1; }
export CUDA_CACHE_PATH="$PWD/$WORK/cache" # the driver's folder of assembled code
rm -rf "$CUDA_CACHE_PATH"
mkdir "$CUDA_CACHE_PATH"
for part in ${*:-$names}; do
    line=$(printf '%s\n' "$PARTS" | grep "^$part ")
    needs=${line#* } what=${line#* * }
    say "$part: $what"
    if has "${needs%% *}"; then "$part"; else echo "skipped: needs ${needs%% *}"; fi
done
exit $status
