#!/bin/sh
# install.sh - installs what building and testing baton needs, on Debian or Ubuntu:
#   gcc, make   to build           python3   to run the tests
#   clang       for `make fuzz`
#   libisl      for `baton check` to ask about bounds and outputs; linked statically (libgmp too)
#   libjansson  for `baton bench` to read its results and its peers' answers; linked statically
#   valgrind    for `baton bench --cpu --instructions`, which the tests ask
# Nothing here is needed to run baton, and a GPU only needs its driver. Installs only what is missing.
set -eu

missing=""
command -v "${CC:-gcc}" > /dev/null || missing="$missing gcc libc6-dev"
command -v make > /dev/null || missing="$missing make"
command -v python3 > /dev/null || missing="$missing python3"
command -v clang > /dev/null || missing="$missing clang"
command -v valgrind > /dev/null || missing="$missing valgrind"
printf '#include <isl/set.h>\n' | "${CC:-gcc}" -E - > /dev/null 2>&1 || missing="$missing libisl-dev libgmp-dev"
printf '#include <jansson.h>\n' | "${CC:-gcc}" -E - > /dev/null 2>&1 || missing="$missing libjansson-dev"
# clang's runtime (libFuzzer, sanitizers) is a package of its own in newer releases.
fuzzer=""
if command -v clang > /dev/null; then
    fuzzer=$(clang -print-file-name=libclang_rt.fuzzer-x86_64.a)
    [ -e "$fuzzer" ] || fuzzer=$(find /usr/lib/llvm* /usr/lib/clang -name 'libclang_rt.fuzzer*.a' 2> /dev/null | head -1)
    [ -n "$fuzzer" ] || missing="$missing libclang-rt-dev"
fi
if [ -z "$missing" ]; then
    echo "everything that baton needs is installed"
    exit 0
fi
if ! command -v apt-get > /dev/null; then
    echo "please install with your package manager:$missing" >&2
    exit 1
fi
if [ "$(id -u)" != 0 ]; then
    echo "this needs root; the one command is: sudo sh tools/install.sh" >&2
    echo "(it will install:$missing)" >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
apt-get update -q
# libclang-rt-dev does not exist in releases where clang brings its runtime along.
apt-get install -y -q --no-install-recommends $missing || apt-get install -y -q --no-install-recommends \
    $(echo "$missing" | sed 's/libclang-rt-dev//')
# With clang just installed its runtime may still be missing.
clang -print-file-name=libclang_rt.fuzzer-x86_64.a | grep -q / ||
    apt-get install -y -q --no-install-recommends libclang-rt-dev || true
