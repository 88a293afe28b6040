"""How Hypothesis runs here: no test fails for being slow on a busy machine."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("lmsv", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("lmsv")
