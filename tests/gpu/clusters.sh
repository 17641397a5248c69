#!/bin/sh
# Clusters on the GPU: each kernel with multicast loads gives the bits that the emulator gives, and is
# right by its contract. On a machine with a Hopper GPU:
#
#     make && sh tests/gpu/clusters.sh [FOLDER WITH baton]
#
# One line a case: kernel, sizes, whether the bits are the same, time on the GPU. Exit status 1 when one
# differs, is wrong, or does not come back within a minute.
cd "$(dirname "$0")/../.." || exit 2
baton=${1:-build}/baton
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
status=0

# compare FILE OUTPUT WORDS: one case on both devices.
compare() {
    file=$1 output=$2
    shift 2
    name=$(basename "$file" .co)
    "$baton" run "$file" --device=emu --no-hazards "$@" "--out=$output=$work/emu.npy" \
        > "$work/emu.txt" 2>&1 || { cat "$work/emu.txt"; status=1; }
    timeout 60 "$baton" run "$file" --device=cuda:0 "$@" "--out=$output=$work/gpu.npy" \
        > "$work/gpu.txt" 2>&1 || { cat "$work/gpu.txt"; status=1; }
    same=DIFFERENT
    cmp -s "$work/emu.npy" "$work/gpu.npy" && same=same || status=1
    time=$(sed -n 's/^  time  *//p' "$work/gpu.txt" | head -1)
    printf '%-20s %-24s bits %-10s %s\n' "$name" "$*" "$same" "$time"
    rm -f "$work"/*.npy
}

for sizes in "" "M=1 N=1 K=8" "M=128 N=128 K=64" "M=129 N=257 K=520" "M=640 N=384 K=1024" \
             "M=130 N=130 K=77" "M=2048 N=1024 K=512"; do
    compare kernels/learn/multicast.co c $sizes
done
for sizes in "" "M=64 N=256 K=8" "M=130 N=67 K=136" "M=513 N=1100 K=1000"; do
    compare tests/lang/cluster-persistent.co c $sizes
done
for sizes in "" "M=64" "M=6400"; do
    compare tests/lang/cluster-copy.co dst $sizes
done
exit $status
