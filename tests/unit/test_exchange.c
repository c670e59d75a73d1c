/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What members of a team agree on before panels pass between them: they pass if all have as many, two or more, each of
 * as many rows or columns, and nobody left before; in as many slices as he has who has fewest. And the order in which
 * each goes through them (the picture of exchange.h).
 *
 * Seen to fail when: panels of unlike widths are passed; the first member's slices are taken for all.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <unistd.h>

#include "pipeline/exchange.h"

enum { MEMBERS = 3 };

struct member {
  struct tb_pass pass;
  struct tb_panels panels; /* count -1: leaves instead */
};

static void *join(void *opaque) {
  struct member *m = opaque;
  if (m->panels.count >= 0)
    tb_pass_join(&m->pass, m->panels);
  else
    tb_pass_leave(&m->pass);
  return NULL;
}

static void expect(const struct tb_panels panels[MEMBERS], bool on, int64_t slices) {
  static struct tb_exchange x;
  struct member member[MEMBERS];
  pthread_t thread[MEMBERS];
  tb_exchange_open(&x, MEMBERS, true);
  for (int i = 0; i < MEMBERS; i++) member[i] = (struct member){tb_pass_of(&x, i, NULL, TB_OPERAND_A), panels[i]};
  for (int i = 0; i < MEMBERS; i++) assert_int_equal(pthread_create(&thread[i], NULL, join, &member[i]), 0);
  for (int i = 0; i < MEMBERS; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < MEMBERS; i++)
    if (panels[i].count >= 0) assert_int_equal(member[i].pass.operand, on ? TB_OPERAND_A : TB_NO_OPERAND);
  if (on) assert_int_equal(x.panels.slices, slices);
  tb_exchange_close(&x);
}

static void what_they_agree_on(void **state) {
  (void)state;
  for (int odd = 0; odd < MEMBERS; odd++) { /* whoever of them is another, and whenever he comes */
    struct tb_panels alike[MEMBERS] = {{5, 128, 4}, {5, 128, 4}, {5, 128, 4}}, *one = &alike[odd];
    for (int again = 0; again < 20; again++) {
      *one = (struct tb_panels){5, 128, 4}, expect(alike, true, 4);
      *one = (struct tb_panels){5, 128, 2}, expect(alike, true, 2);
      *one = (struct tb_panels){5, 256, 4}, expect(alike, false, 0);
      *one = (struct tb_panels){4, 128, 4}, expect(alike, false, 0);
      *one = (struct tb_panels){0, 0, 0}, expect(alike, false, 0);
      *one = (struct tb_panels){-1, 0, 0}, expect(alike, false, 0);
    }
  }
  const struct tb_panels single[MEMBERS] = {{1, 128, 4}, {1, 128, 4}, {1, 128, 4}};
  expect(single, false, 0);
}

/* In each group of as many panels as members everybody begins with his own, and everybody has all. */
static void whose_turn(void **state) {
  (void)state;
  static struct tb_exchange x;
  for (int64_t count = 2; count < 12; count++) {
    tb_exchange_open(&x, MEMBERS, true);
    x.panels.count = count;
    for (int i = 0; i < MEMBERS; i++) {
      const struct tb_pass pass = tb_pass_of(&x, i, NULL, TB_OPERAND_B);
      bool had[12] = {false};
      for (int64_t turn = 0; turn < count; turn++) {
        const int64_t panel = tb_pass_turn(&pass, TB_OPERAND_B, turn);
        assert_true(panel / MEMBERS == turn / MEMBERS && panel < count && !had[panel]);
        had[panel] = true;
        if (turn % MEMBERS == 0 && panel / MEMBERS * MEMBERS + i < count)
          assert_true(tb_pass_is_own(&pass, TB_OPERAND_B, panel));
        assert_int_equal(tb_pass_turn(&pass, TB_OPERAND_A, turn), turn); /* of what is not passed */
      }
    }
    tb_exchange_close(&x);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_they_agree_on), cmocka_unit_test(whose_turn)};
  alarm(60);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
