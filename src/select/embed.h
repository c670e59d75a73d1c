/* SPDX-License-Identifier: BSD-3-Clause */
/* How a fat binary that the build made gets into the library. */
#ifndef TB_EMBED_H
#define TB_EMBED_H

/* The file, put into the read-only data under a symbol that only this library sees. */
#define TB_EMBED(symbol, file)                 \
  __asm__(".pushsection .rodata\n"             \
          ".balign 64\n"                       \
          ".hidden " #symbol "\n"              \
          ".globl " #symbol "\n" #symbol ":\n" \
          ".incbin \"" file "\"\n"             \
          ".popsection\n");                    \
  extern const unsigned char symbol[] __attribute__((visibility("hidden")))

#endif
