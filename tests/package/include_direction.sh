#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Data goes one way through the rooms of src/, and so do its includes: each names its room, and reaches that room or a
# later one. Files do not go round in circles. Rooms before the offload do not know that CUDA exists, nor do those that
# come after the driver's. Includes count with everything that they include in turn.
. "$(dirname "$0")/common.sh"
cd "$TB_TEST_SOURCE/src"

# The rooms in the order in which a call passes through them: all that this test knows.
rooms=(interface level3 route offload pipeline cache plan select cuda cpu blas process base)
may_know_cuda=" offload pipeline cache select cuda "

# edge FILE TARGET, a line for each include of a file of src/ or of cuda.h.
edges() {
  grep -HoE '^[[:space:]]*#[[:space:]]*include[[:space:]]*["<][^">]+[">]' -r --include='*.c' --include='*.h' \
    --include='*.def' . | sed -E 's/^\.\/([^:]+):.*["<]([^">]+)[">]$/\1 \2/'
}
edges >"$work/all"
awk '{ if ($2 == "cuda.h" || (getline line < $2) >= 0) print; close($2) }' "$work/all" >"$work/edges"
[ -s "$work/edges" ] || fail "no include was found"

wrong=0
complain() {
  echo "$*" >&2
  wrong=1
}
for folder in */; do
  case " ${rooms[*]} " in *" ${folder%/} "*) ;; *) complain "src/$folder is no room of this test's list" ;; esac
done
for room in "${rooms[@]}"; do
  [ -d "$room" ] || complain "src/$room is in this test's list, but not in src/"
  [ -f "$room/README.md" ] || complain "src/$room has no README.md"
done
while read -r file name; do # bare names of a neighbour's would hide the room
  if [ -e "$(dirname "$file")/$name" ]; then complain "src/$file includes \"$name\" without its room"; fi
done < <(awk '$2 !~ /\//' "$work/all")

awk -v order="${rooms[*]}" -v knowing="$may_know_cuda" '
  function room_of(file) { return substr(file, 1, index(file, "/") - 1) }
  # A .c and its .h are one; a room'"'"'s _internal.h is part of the file that it is named for.
  function unit(file) { sub(/(_internal)?\.[a-z]+$/, "", file); return file }
  function reach(from, at,   i, next_one) {
    for (i = 1; i <= count[at]; i++) {
      next_one = target[at, i]
      if ((from, next_one) in reached) continue
      reached[from, next_one] = 1
      if (next_one != "cuda.h") reach(from, next_one)
    }
  }
  BEGIN { n = split(order, name, " "); for (i = 1; i <= n; i++) number[name[i]] = i }
  {
    target[$1, ++count[$1]] = $2; files[$1] = 1
    if ($2 == "cuda.h") next
    if (number[room_of($2)] < number[room_of($1)]) { print "src/" $1 " reaches back to src/" $2; bad = 1 }
    if (unit($1) != unit($2)) uses[unit($1), unit($2)] = 1
  }
  END {
    for (file in files) {
      reach(file, file)
      if ((file, "cuda.h") in reached && !index(knowing, " " room_of(file) " ") && file !~ /\/place\.c$/) {
        print "src/" file " reaches cuda.h: it must not know that CUDA exists"; bad = 1
      }
      if (file == "cuda/driver.c" && (file, "cuda.h") in reached) seen = 1
    }
    # What uses nothing that is left is taken away, again and again: what stays is a circle.
    do {
      removed = 0
      for (pair in uses) { split(pair, p, SUBSEP); busy[p[1]] = round }
      for (pair in uses) {
        split(pair, p, SUBSEP)
        leaf = 1
        for (other in uses) { split(other, q, SUBSEP); if (q[1] == p[2]) { leaf = 0; break } }
        if (leaf) { delete uses[pair]; removed = 1 }
      }
    } while (removed)
    for (pair in uses) { split(pair, p, SUBSEP); print "a circle of files: src/" p[1] " and src/" p[2]; bad = 1 }
    if (!seen && "cuda/driver.c" in files) { print "cuda/driver.c does not seem to reach cuda.h: this test is blind"; bad = 1 }
    exit bad
  }' "$work/edges" >&2 || wrong=1
[ $wrong -eq 0 ] || fail "the order of the rooms is in tests/package/include_direction.sh"
echo "$(find . -name '*.[ch]' | wc -l) files of src/ in ${#rooms[@]} rooms include only forward"
