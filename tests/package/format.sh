#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Every source file is laid out as .clang-format says.
. "$(dirname "$0")/common.sh"
version=14 # layouts differ a little between versions; this is Debian 12's

for formatter in "clang-format-$version" clang-format ""; do
  [ -z "$formatter" ] || "$formatter" --version 2>/dev/null | grep -q "version $version\." || continue
  break
done
[ -n "$formatter" ] || skip "no clang-format $version"

cd "$TB_TEST_SOURCE"
find include src kernels tests bench tools -type f \
  \( -name '*.c' -o -name '*.h' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh' \) | sort >"$work/files"
[ -s "$work/files" ] || fail "found no sources"
# Many files a process, on two cores: a process for each takes five times as long.
xargs -P 2 -n 50 "$formatter" --style=file --dry-run <"$work/files" 2>"$work/said" || true
sed -n 's/^\([^ :]*\):[0-9]*:[0-9]*: .*clang-format-violations.*/\1/p' "$work/said" | sort -u >"$work/wrong"
[ -s "$work/wrong" ] || [ ! -s "$work/said" ] || fail "$formatter says: $(head -n 5 "$work/said")"
[ ! -s "$work/wrong" ] || fail "not laid out as .clang-format says; mend with $formatter -i $(tr '\n' ' ' <"$work/wrong")"
echo "$(wc -l <"$work/files") files are laid out by $($formatter --version)"
