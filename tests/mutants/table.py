"""All mutants, in the order of the invariants they break."""

from mutants import of_carriers, of_the_log, of_the_worker
from mutants.mutant import Mutant

MUTANTS: list[Mutant] = sorted(
    [*of_the_log.MUTANTS, *of_the_worker.MUTANTS, *of_carriers.MUTANTS], key=lambda one: one.invariant
)
