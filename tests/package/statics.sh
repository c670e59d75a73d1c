#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A name of src/ is found by one search: no two files define the same one. The linker sees to that for what is global;
# this test does for static functions and variables, for macros of one file, and for the tags of types.
# Seen to fail when: an answer_small stood in two files of interface/; a macro PREFIX in two rooms; a second struct job.
. "$(dirname "$0")/common.sh"

# names FOLDER: NAME FILE, a line for each definition in the first column. Macros named TB_ that several files define
# are rows of tables (X macros).
names() {
  find "$1" -name '*.[ch]' | sort | while read -r file; do
    awk -v file="${file#"$1"/}" '
      function say(name) { if (name != "" && !(name in said)) { said[name] = 1; print name, file } }
      # A declaration without its initialisers, bodies and parentheses: its names end what commas part.
      function names_of(text,   part, n, i) {
        while (sub(/\{[^{}]*\}/, "", text)) continue
        sub(/\{.*/, "", text)
        while (sub(/\([^()]*\)/, "@", text)) continue
        gsub(/(__attribute__|_Atomic|[A-Z][A-Z_]*)@+/, "", text) # and names that a macro makes
        while (sub(/\[[^\[\]]*\]/, "", text)) continue
        sub(/;.*/, "", text)
        n = split(text, part, ",")
        for (i = 1; i <= n; i++) {
          sub(/[=@].*/, "", part[i])
          sub(/[ \t]+$/, "", part[i])
          if (match(part[i], /[A-Za-z_][A-Za-z_0-9]*$/) && part[i] !~ /struct$/) say(substr(part[i], RSTART))
        }
      }
      { line = $0 }
      inside { if (!sub(/^.*\*\//, "", line)) next; inside = 0 }
      { while (sub(/\/\*([^*]|\*+[^*\/])*\*+\//, "", line)) continue }
      sub(/\/\*.*/, "", line) { inside = 1 }
      line ~ /^#define [A-Za-z_]/ && line !~ /^#define (TB_|_GNU_SOURCE)/ {
        split(line, word, /[ (]/)
        say(word[2])
      }
      line ~ /^(struct|union|enum) [A-Za-z_0-9]+ \{/ { split(line, word, " "); say(word[2]) }
      !open && line ~ /^} [a-z_]/ { names_of(line) }
      !open && line ~ /^(static|__attribute__.*[) ]static) / &&
        line !~ /^static (const )?(struct|union|enum) [a-z_0-9]* ?\{$/ {
        open = 1
        text = ""
      }
      open {
        text = text line " "
        # Its end: that of a declaration, or the body of a function, which has no = before it.
        if (line ~ /;[ \t]*$/ || (line ~ /\{.*$/ && text !~ /=/)) { names_of(text); open = 0 }
      }' "$file"
  done
}

# twice FOLDER: the names that several files define.
twice() {
  names "$1" | sort |
    awk '{ files[$1] = files[$1] " " $2; count[$1]++ }
         END { for (n in count) if (count[n] > 1) print n ":" files[n] }' |
    sort
}

# The check sees each kind, or it is blind; and it does not see what is no definition.
printf '%s\n' '#define SIZE 1' '#define TB_ROW(x) x' 'struct job {' '  int a;' '};' 'static int one(struct job *j,' \
  '               int b) {' '  return SIZE;' '}' '__attribute__((noinline, cold)) static int two(void) { return 2; }' \
  'static _Atomic(void *) *const three[2] = {0, 0}, four;' 'static const struct {' '  int a;' '} five = {1};' \
  '/* static int six(void) { */' 'int seven(void) {' '  static int eight;' '}' >"$work/a.c"
cp "$work/a.c" "$work/b.h"
seen=$(twice "$work" | sed 's/:.*//' | tr '\n' ' ')
[ "$seen" = "SIZE five four job one three two " ] || fail "the check sees other names than it should: $seen"

twice "$TB_TEST_SOURCE/src" >"$work/found"
[ ! -s "$work/found" ] || fail "names that several files define: $(cat "$work/found")"
count=$(names "$TB_TEST_SOURCE/src" | wc -l)
[ "$count" -gt 300 ] || fail "only $count names were found"
echo "$count names of one file, each in no other"
