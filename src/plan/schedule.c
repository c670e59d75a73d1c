/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/schedule.h"

#include "base/integers.h"

/* Most panels of a side that go up in turn, slice by slice. */
#define LEADING_MAX 3

/* Of `side` panels those that do. */
static int64_t leading(const struct tb_schedule *s, int64_t side) {
  const int64_t longer = s->rows > s->columns ? s->rows : s->columns;
  return s->order == TB_BY_SLICES ? side : tb_min(side, tb_min(longer / 2 + 1, LEADING_MAX));
}

int64_t tb_schedule_steps(const struct tb_schedule *s) { return (s->rows + s->columns) * s->slices; }

/* Panel `number` of an A and a B in turn, while there are both. */
static struct tb_step in_turn(int64_t number, int64_t rows, int64_t columns) {
  const int64_t both = tb_min(rows, columns);
  if (number < 2 * both) return (struct tb_step){.of_b = number % 2 == 1, .index = number / 2};
  return (struct tb_step){.of_b = columns > rows, .index = number - both};
}

struct tb_step tb_schedule_step(const struct tb_schedule *s, int64_t number) {
  const int64_t first = tb_schedule_first(s);
  if (first > 0)
    return number < first ? (struct tb_step){.of_b = s->order == TB_B_FIRST, .index = number}
                          : (struct tb_step){.of_b = s->order == TB_A_FIRST, .index = number - first};
  const int64_t rows = leading(s, s->rows), columns = leading(s, s->columns);
  const int64_t lead = rows + columns;
  struct tb_step step;
  if (number < lead * s->slices) {
    step = in_turn(number % lead, rows, columns);
    step.slice = number / lead;
    return step;
  }
  number -= lead * s->slices;
  step = in_turn(number / s->slices, s->rows - rows, s->columns - columns);
  step.index += step.of_b ? columns : rows;
  step.slice = number % s->slices;
  return step;
}
