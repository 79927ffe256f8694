"""What holds for every test: an example is judged by what it shows, not by how long a busy machine takes."""

from hypothesis import HealthCheck, settings

settings.register_profile("handler", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("handler")
