"""Where Metropolis proposes to go.

A proposal is one compiled function that draws and weighs: propose(rng, tuning, numbers, now, which,
u, v) writes where to go and returns log q(back) - log q(there). Those in free coordinates read u
and write v; a user's own reads and writes numbers.ends, the blocks themselves. `which`: the model
that a block of varying length belongs to, or the site of a block whose sites move one by one; 0 for
others. learn(tuning, numbers, now, which, u, accepted), after the decision, adapts what is adapted.

walk.py: random walks. gaussian.py: sm.pcn and sm.independence around a Gaussian that is given.
learned.py: around one that is learnt. own.py: the user's. choose.py: which one was asked for.
langevin_step.py: those of sm.Langevin, which have a step of their own; own_gradient.py: the user's.
"""
