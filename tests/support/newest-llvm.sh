#!/usr/bin/env bash
# Builds what uses LLVM and no LibTorch (PIPEC_ONLY_SCHEDULES) with the newest LLVM that is installed, and compares what pipe-schedule prints.
#
#   newest-llvm.sh MAJOR TORCH PIPE-SCHEDULE      the LLVM, the LibTorch and the command of the build that is tested
#
# In newest-llvm/ of the working directory. Exit code 77: skipped, because no newer LLVM than MAJOR is installed. With
# PIPEC_NEWEST_LLVM=required, as in CI, this is a failure if the distribution has a newer one: its installation failed.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
major=$1 torch=$2 schedule=$3

newest=$(printf '%s\n' "${PIPEC_LLVM_ROOT:-/usr/lib}"/llvm-*/lib/cmake/llvm/LLVMConfig.cmake | sed -nE 's|.*/llvm-([0-9]+)/.*|\1|p' | sort -n | tail -n 1)
if [ -z "$newest" ] || [ "$newest" -le "$major" ]; then
  offered=$(apt-cache pkgnames llvm- 2>/dev/null | sed -nE 's/^llvm-([0-9]+)-dev$/\1/p' | sort -n | tail -n 1) || offered=
  if [ "${PIPEC_NEWEST_LLVM:-}" = required ] && [ "${offered:-0}" -gt "$major" ]; then
    echo "FAILED: expected LLVM $offered, which the distribution has, got none newer than $major: tools/setup --newest-llvm says why"
    exit 1
  fi
  echo "skipped: no LLVM newer than $major is installed${offered:+, the distribution has $offered}: tools/setup --newest-llvm installs it"
  exit 77
fi

# Its headers need no optimiser, and this build is only there to be compiled.
cmake --fresh -S "$source" -B newest-llvm -G Ninja -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 -DPIPEC_WERROR=ON -DPIPEC_ONLY_SCHEDULES=ON \
  -DPIPEC_TORCH="$torch" -DPIPEC_LLVM_VERSION="$newest" ${PIPEC_LLVM_ROOT:+-DCMAKE_PREFIX_PATH="$PIPEC_LLVM_ROOT/llvm-$newest"}
cmake --build newest-llvm --parallel "$(nproc)"

for words in "--help" "--list" "1f1b,zb-v --ranks 4" "dualpipe-v --json" "no-such-schedule" "1f1b --rank 4" "1f1b --ranks four"; do
  read -ra arguments <<<"$words"
  "$schedule" "${arguments[@]}" >expected.txt 2>&1 || true
  newest-llvm/bin/pipe-schedule "${arguments[@]}" >got.txt 2>&1 || true
  diff -u expected.txt got.txt
done
newest-llvm/bin/pipe-schedule --version | grep -q "LLVM $newest\."
echo "LLVM $newest: built, and pipe-schedule prints the same as with LLVM $major"
