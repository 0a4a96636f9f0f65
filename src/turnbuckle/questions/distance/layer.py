"""A run through a remoting layer whose numbers are set one by one, and the number at which it takes
as long as was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from turnbuckle.foundation.arrays import Float
from turnbuckle.machine import Machine
from turnbuckle.machine.parameter_names import ParameterName
from turnbuckle.projection.anchor import anchored
from turnbuckle.projection.elsewhere.drawn import DrawnMachine
from turnbuckle.projection.order import Prepared, timeline_change
from turnbuckle.projection.run import Run
from turnbuckle.projection.sensitivity import along
from turnbuckle.questions.distance.distance import Distance
from turnbuckle.replay.timeline import Change, no_change


@dataclass(frozen=True)
class Through:
    """One run, ready to go through a layer.

    Attributes
    ----------
    seen : the run, recorded without the layer.
    distance : the same, made ready.
    """

    seen: Run
    distance: Distance

    @classmethod
    def of(cls, seen: Run, layer: Machine, ready: Prepared | None = None) -> Through:
        """Prepare an inspected run.  Raises as `Distance.of`."""
        return cls(seen, Distance.of(seen, "remoting", ready, layer=layer))

    def change(self, numbers: Mapping[ParameterName, Float | float]) -> Change:
        """Return the change that the layer makes with some of its numbers replaced; arrays of shape
        (points, 1).
        """
        source = self.distance.plain()
        given = {n: np.reshape(v, (-1, 1)).astype(np.float64) for n, v in numbers.items()}
        far = DrawnMachine(
            {**source.values, **self.distance.through(), **given}, source.copies_vanish
        )
        return timeline_change(anchored(self.distance.ready.run, source, far, self.distance.model))

    def seconds(self, numbers: Mapping[ParameterName, Float | float]) -> Float:
        """Return the run time [s] with some of the layer's numbers replaced, one value per
        point.
        """
        replay = self.distance.replay
        unchanged = float(replay.seconds(no_change(len(replay.run))))
        return np.asarray(
            self.seen.profile.seconds
            + (np.atleast_1d(replay.seconds(self.change(numbers))) - unchanged)
        )

    def at_which(
        self,
        varied: ParameterName,
        seconds: float,
        most: float,
        numbers: Mapping[ParameterName, float],
    ) -> float | None:
        """Return the largest value of a number at which the run takes no longer than `seconds`;
        None beyond `most`.
        """
        replay = self.distance.replay
        beyond = self.seen.profile.seconds - float(replay.seconds(no_change(len(replay.run))))
        curve = along(
            replay, lambda value: self.change({**numbers, varied: value}), [0.0, most], beyond
        )
        return curve.reaches(seconds)
