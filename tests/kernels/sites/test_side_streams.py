"""No two streams of parts are alike, of one kind or of two."""

from subsample_mcmc.kernels.sites import side_by_side as module
from tests.kernels.sites.test_side_by_side import hierarchy, model_of, sampled


def test_no_stream_of_a_part_is_another_ones(monkeypatch):
    """Decisions are exact and not audited here: streams of rows and audits stay as they began.

    By chance two of 60 sweeps' are alike once in 10^13.
    """
    monkeypatch.setattr(module, "LEAST", 40)  # some five parts
    begun, move = [], module.Sides.move

    def noted(self, k, now):
        move(self, k, now)
        _, bits, chain, _ = self.sides[k]
        begun.append(bits.state["state"]["inc"])
        begun.extend(int(stream[0]) for stream in (chain.rows, chain.audits))

    monkeypatch.setattr(module.Sides, "move", noted)
    sampled(model_of(), hierarchy(), 50, 10)
    assert len(begun) == len(set(begun)) >= 3 * 60 * 4
