#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Data goes one way through src/, and so do its includes: a file reaches its own room and later ones, and what all share.
# Rooms before the offload do not know that CUDA exists. Includes count with everything that they include in turn.
. "$(dirname "$0")/common.sh"
cd "$TB_TEST_SOURCE/src"

# The rooms in the order in which a call passes through them. A name without an ending stands for its .c and .h.
rooms="
export_cblas.c export_fortran.c
api.c run stats.c
caller
router
small
route
calibrate calibration_file cpu_side kept
learn model
offload offload_none.c
team
keeper
gpus
hosted part
fallback behind reference
pipeline pipeline_parts.h compute.c down.c one_slot.c up.c
exchange
staging
device
commit kernels
split thin
launch
wait
place.c
cuda_driver cuda_driver.def"
# What every room may use, and which uses no room.
shared="allowed background blas_call cache_folder choice clock.h copy cores embed.h ending environment gate guest integers.h layout libraries lines log options options.def order place.h plan plan_parts.h plan_tensor.c pool retry.h sandbox schedule select select.def share emulated_plan stack
 stats.h status status.def symbols symbols.def skinny_plan thread"
# The files that may know of CUDA.
knowing="offload.c team keeper.c gpus hosted.c part pipeline pipeline_parts.h compute.c down.c one_slot.c up.c exchange staging
 device commit kernels split thin launch wait place.c cuda_driver cuda_driver.def"

expand() { # names to files
  local name
  for name in "$@"; do
    case $name in
      *.*) echo "$name" ;;
      *) printf '%s.c\n%s.h\n' "$name" "$name" ;;
    esac
  done
}

declare -A room_of may_know
number=0
while read -r line; do
  # shellcheck disable=SC2086 # a list of words
  for file in $(expand $line); do room_of[$file]=$number; done
  number=$((number + 1))
done <<<"$rooms"
# shellcheck disable=SC2086
for file in $(expand $shared); do room_of[$file]=shared; done
# shellcheck disable=SC2086
for file in $(expand $knowing); do may_know[$file]=1; done

declare -A reached
reach() { # FILE: fills `reached` with every file of src/ that it includes, directly or not, and cuda.h
  local next
  while read -r next; do
    [ -z "${reached[$next]:-}" ] || continue
    reached[$next]=1
    [ ! -f "$next" ] || reach "$next"
  done < <(sed -n 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*["<]\([^">]*\)[">].*/\1/p' "$1")
}

files=(*.c *.h *.def)
wrong=0
complain() {
  echo "$*" >&2
  wrong=1
}
for file in "${files[@]}"; do
  room=${room_of[$file]:-}
  [ -n "$room" ] || { complain "src/$file has no room in this test's list"; continue; }
  reached=()
  reach "$file"
  for other in "${!reached[@]}"; do
    if [ "$other" = cuda.h ] && [ -z "${may_know[$file]:-}" ]; then
      complain "src/$file reaches cuda.h: it must not know that CUDA exists"
    fi
    theirs=${room_of[$other]:-}
    case $theirs in
      "" | shared) continue ;; # a system's header or a shared one
    esac
    if [ "$room" = shared ]; then
      complain "src/$file is for all rooms, but reaches src/$other"
    elif [ "$theirs" -lt "$room" ]; then
      complain "src/$file reaches back to src/$other"
    fi
  done
done
[ $wrong -eq 0 ] || fail "the list of rooms is in tests/package/include_direction.sh"

# The list must not outlive the files, and the search must see what is there.
for name in $rooms $shared; do
  [ -f "$name" ] || [ -f "$name.c" ] || [ -f "$name.h" ] || fail "src/$name is in this test's list, but not in src/"
done
reached=()
reach device.c
[ -n "${reached[cuda.h]:-}" ] || fail "device.c does not seem to reach cuda.h: this test is blind"
echo "${#files[@]} files of src/ include only forward"
