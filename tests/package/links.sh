#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What the documentation says can be followed: every relative link of every .md file names something that is there,
# README.md has 90 lines at most, and every TILEBLAS_ name in the documentation is an option, a name of the public
# headers or of the build, or one that the library ignores on purpose. Each check sees a fault when there is one.
. "$(dirname "$0")/common.sh"
[ -d "$TB_TEST_SOURCE/bench/results" ] || skip "a copy of the sources without bench/results"

documents() { # TREE: its .md files, those of build folders left out
  find "$1" \( -path "$1/build" -o -path "$1/kit" -o -name .git \) -prune -o -name '*.md' -print | sort
}

# TREE: prints FILE: TARGET for each relative link that leads nowhere. Lines of code (four spaces, ``` fences) and code
# between backquotes hold no links.
dead_links() {
  local file target
  documents "$1" | while read -r file; do
    awk '/^```/ { fence = !fence; next } !fence && !/^    / { gsub(/`[^`]*`/, ""); print }' "$file" |
      grep -o '](\([^()]\|([^()]*)\)*)' | sed -e 's/^](//' -e 's/)$//' -e 's/[[:space:]].*//' -e 's/#.*//' |
      while read -r target; do
        case $target in "" | *://* | mailto:*) continue ;; esac
        [ -e "$(dirname "$file")/$target" ] || echo "${file#"$1/"}: $target"
      done
  done
}

# The names that documentation may use: options, macros of the headers, variables of the build and of its scripts, what
# environment modules set (docs/guest.md).
options=$(find "$TB_TEST_SOURCE/src" -name options.def)
[ -n "$options" ] || fail "src/ has no options.def"
{
  sed -n 's/.*"\(TILEBLAS_[A-Z0-9_]*\)".*/\1/p' "$options"
  grep -h -o 'TILEBLAS_[A-Z0-9_]*' "$TB_TEST_SOURCE"/include/* "$TB_TEST_SOURCE/CMakeLists.txt" \
    "$TB_TEST_SOURCE/CMakePresets.json" "$TB_TEST_SOURCE/bench/demo"
  echo TILEBLAS_ROOT
} | sort -u >"$work/known"
grep -q -x TILEBLAS_ROUTE "$work/known" || fail "no options were found in $options"

unknown_names() { # TREE: FILE: NAME for each TILEBLAS_ name in README, docs/ and the other guides that nobody knows
  local file
  documents "$1" | grep -v "^$1/bench/results/" | while read -r file; do
    grep -o 'TILEBLAS_[A-Z0-9_]*[A-Z0-9]' "$file" | sort -u | comm -13 "$work/known" - | sed "s|^|${file#"$1/"}: |"
  done
}

too_long() { # TREE
  [ "$(wc -l <"$1/README.md")" -le 90 ]
}

# A tree with one fault of each kind, and with what is none.
mkdir "$work/tree" "$work/tree/docs"
cat >"$work/tree/README.md" <<'END'
[there](docs/a.md#part) [web](https://example.org/x) [gone](docs/b.md) `[code](nowhere)` ![gone](docs/p.svg "title")
`TILEBLAS_ROUTE` and TILEBLAS_ROUT

    [code](nowhere)
END
echo '[up](../README.md) [gone](README.md)' >"$work/tree/docs/a.md"
printf 'README.md: %s\n' docs/b.md docs/p.svg >"$work/expected"
echo 'docs/a.md: README.md' >>"$work/expected"
dead_links "$work/tree" >"$work/found"
same "the list of dead links" "$work/expected" "$work/found"
[ "$(unknown_names "$work/tree")" = "README.md: TILEBLAS_ROUT" ] || fail "a misspelt option was not seen"
too_long "$work/tree" || fail "a README of 4 lines was taken for a long one"
seq 91 >"$work/tree/README.md"
! too_long "$work/tree" || fail "a README of 91 lines was taken for a short one"

dead_links "$TB_TEST_SOURCE" >"$work/dead"
unknown_names "$TB_TEST_SOURCE" >"$work/unknown"
[ ! -s "$work/dead" ] || { cat "$work/dead" >&2; fail "links that lead nowhere"; }
[ ! -s "$work/unknown" ] || { cat "$work/unknown" >&2; fail "TILEBLAS_ names that are no option"; }
too_long "$TB_TEST_SOURCE" || fail "README.md has $(wc -l <"$TB_TEST_SOURCE/README.md") lines, more than 90"
echo "$(documents "$TB_TEST_SOURCE" | wc -l) documents: their links lead somewhere, their options exist"
