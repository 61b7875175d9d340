"""The registry by a name that ``hourhand run --executor`` can be given."""

from examples.demo_fleet.executor import make_app

APP = make_app()
