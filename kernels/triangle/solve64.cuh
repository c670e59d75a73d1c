/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * A diagonal block of A' and the rows of B beside it, solved in doubles by the FP64 tensor cores, see solve_args.h.
 * Rows are solved 16 at a time, a step. A block of threads has 32 columns of B: three warps multiply; one is for the
 * diagonal; the solver, a warp, has all columns, one in each lane; and four move what these want and what they have
 * made.
 *
 *     A'              X
 *   | D         |   | solved        |   multipliers, while the solver is at a step: A' times what was solved before
 *   | E D       |   | solved        |       that step, for the next step's rows; and behind it E times that step's
 *   | A E D     |   | this step     |   solver: this step's rows by D
 *   | A A E D   |   | the next one  |   movers: for the step behind the next one B, D, A and E; X's last rows
 *
 * All meet when a step's sums are there; when it is solved, multipliers and the solver.
 *
 * Who multiplies on tensor cores has the units for doubles of its quarter of an SM nearly alone: beside such a warp the
 * solver's FMAs take twice as long. So the solver's quarter has none, but the diagonal's warp, which multiplies E when
 * the solver waits.
 *
 * Of floats all is computed in doubles, from A' and B as they are, and X is rounded to a float where it goes to memory.
 */
#ifndef TB_TRIANGLE_SOLVE64_CUH
#define TB_TRIANGLE_SOLVE64_CUH

#include "triangle/solve64_movers.cuh"
#include "triangle/solve64_multiplier.cuh"
#include "triangle/solve64_solver.cuh"

namespace triangle_leaf {

template <typename Stored, bool lower>
__device__ void solve64(const tb_triangle_leaf_args &args, unsigned char *shared) {
  constexpr int MULTIPLIERS = TB_TRIANGLE_SOLVE64_MULTIPLIERS, DIAGONAL = MULTIPLIERS;
  constexpr int SOLVER = DIAGONAL + 4; /* in one quarter with it */
  const int warp = static_cast<int>(threadIdx.x) / 32;
  if (warp < MULTIPLIERS)
    Multiplier64<Stored, lower>(args, shared).run();
  else if (warp == DIAGONAL)
    Diagonal64<Stored, lower>(args, shared).run();
  else if (warp == SOLVER)
    Solver64<Stored, lower>(args, shared).run();
  else
    Mover64<Stored, lower>(args, shared, warp - DIAGONAL - (warp > SOLVER ? 2 : 1)).run();
}

} // namespace triangle_leaf

#endif
